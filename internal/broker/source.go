package broker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/outboxctl/outboxctl/dispatch"
)

// ErrNoSource means that nothing can be received from a broker: it hands events over.
var ErrNoSource = errors.New("nothing can be received")

// ErrNoSubscription is in the error of Source, and of Receive, when the subscription does not
// exist.
var ErrNoSubscription = errors.New("the subscription does not exist")

// SourceParams of Source.
type SourceParams struct {
	// Subscription is the value of the Kind's setting Subscription.
	Subscription string
	// Concurrency is how many messages may be under way; Streams how many connections receive, 0
	// for the broker's own number.
	Concurrency, Streams int
	// Comeback is after which time what a killed consumer held comes again, where the broker lets
	// its reader say; 0 is the broker's own.
	Comeback time.Duration
}

// Source is a subscription that hands out messages.
type Source interface {
	// Receive calls f for each message, side by side up to Concurrency and those of an ordering
	// key one after the other, until ctx ends and every message is acknowledged or given back.
	Receive(ctx context.Context, f func(Delivery)) error
	// Permanent reports whether an error of Receive needs a person: the subscription is missing,
	// or may not be read.
	Permanent(err error) bool
	// About is what the subscription promises.
	About() About
}

// Measurer is a Broker that can tell how many messages a subscription has not acknowledged.
type Measurer interface {
	Backlog(ctx context.Context, subscription string) (int64, error)
}

// About is what is known of a subscription.
type About struct {
	// Warning is what is worth knowing; mostly empty.
	Warning string
	// Ordered: the messages of an ordering key come in order.
	Ordered bool
	// MaxDeliveries is after how many deliveries a message does not come again; 0: it always does.
	MaxDeliveries int
}

// Delivery is one message of a subscription.
type Delivery struct {
	Message
	// ID is the broker's, for the log.
	ID          string
	Attributes  map[string]string
	Body        []byte
	OrderingKey string
	// Attempt is how often it was delivered; 0 where the broker does not count.
	Attempt int
	// Subscription is where it came from; Join sets it.
	Subscription string
}

// Message is acknowledged, or given back to come again.
type Message interface {
	Ack()
	Nack()
}

// Subscription is what the Sources of brokers have in common.
type Subscription struct {
	// Failure gives errors their class.
	Failure func(error) *dispatch.Failure
	Promise About
}

// Permanent implements Source.
func (s Subscription) Permanent(err error) bool {
	return errors.Is(err, ErrNoSubscription) || s.Failure(err).Class == dispatch.Misconfigured
}

// About implements Source.
func (s Subscription) About() About { return s.Promise }

// Finding is what doctor has to say about a broker's settings, and what to do.
type Finding struct {
	Warn            bool
	Message, Remedy string
}

// Join receives from several subscriptions at once, by their names. Concurrency bounds what is
// under way in all of them.
func Join(names []string, sources []Source, concurrency int) Source {
	return &joined{names: names, sources: sources, slots: make(chan struct{}, max(1, concurrency))}
}

type joined struct {
	names   []string
	sources []Source
	slots   chan struct{}
}

// Receive implements Source. The first error ends it.
func (j *joined) Receive(ctx context.Context, f func(Delivery)) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, source := range j.sources {
		group.Go(func() error {
			return source.Receive(ctx, func(d Delivery) {
				d.Subscription = j.names[i]
				if len(j.sources) > 1 {
					j.slots <- struct{}{}
					defer func() { <-j.slots }()
				}
				f(d)
			})
		})
	}
	return group.Wait()
}

// Permanent implements Source.
func (j *joined) Permanent(err error) bool {
	return err != nil && slices.ContainsFunc(j.sources, func(s Source) bool { return s.Permanent(err) })
}

// About implements Source. Where one subscription gives nothing up, nothing is counted on.
func (j *joined) About() (all About) {
	var warnings []string
	for i, source := range j.sources {
		a := source.About()
		if len(j.sources) == 1 {
			return a
		}
		if a.Warning != "" {
			warnings = append(warnings, j.names[i]+": "+a.Warning)
		}
		all.Ordered = all.Ordered || a.Ordered
		if i == 0 || a.MaxDeliveries == 0 || all.MaxDeliveries > 0 && a.MaxDeliveries < all.MaxDeliveries {
			all.MaxDeliveries = a.MaxDeliveries
		}
	}
	all.Warning = strings.Join(warnings, "; ")
	return all
}
