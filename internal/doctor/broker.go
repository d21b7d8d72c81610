package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// The kinds and states of a Resource.
const (
	ResourceTopic        = "topic"
	ResourceSubscription = "subscription"

	ResourceExists   = "exists"
	ResourceMissing  = "missing"
	ResourceOrphaned = "orphaned" // a subscription whose topic was deleted
	ResourceDiffers  = "differs"  // a subscription of another topic
	ResourceFailed   = "failed"   // the broker refused to tell
)

// A Resource is a topic or subscription that the configuration names, as the broker has it.
type Resource struct {
	Kind  string
	Name  string
	State string
	// Detail explains the state, or says what is worth knowing about something that exists.
	Detail string
}

// Whether events with an ordering key wait, by outbox_events_turn_idx.
const orderedEvents = `
SELECT EXISTS (SELECT FROM outbox_events WHERE ordering_key IS NOT NULL AND published_at IS NULL AND passed_at IS NULL)`

// broker looks at topics and subscriptions, and, where events have an ordering key, whether these can keep its order.
func (p Params) broker(ctx context.Context, ordered func(context.Context) (bool, error)) ([]Finding, error) {
	if p.Broker == nil {
		return []Finding{{
			Level: Warn, Remedy: "set " + strings.Join(p.Kind.Needs, " and "), Message: p.Kind.Title + " is not configured",
		}}, nil
	}
	keys, err := ordered(ctx)
	if err != nil {
		return nil, err
	}
	resources, odd, err := p.Broker(ctx, keys)
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, f := range odd {
		level := OK
		if f.Warn {
			level = Warn
		}
		found = append(found, Finding{Level: level, Message: f.Message, Remedy: f.Remedy})
	}
	fine := 0
	same := map[Resource][]string{} // what is wrong, and with which
	var wrong []Resource
	for _, r := range resources {
		if r.State == ResourceExists {
			fine++
		}
		if r.finding(p.Kind) == nil {
			continue
		}
		kind := Resource{Kind: r.Kind, State: r.State, Detail: r.Detail}
		if same[kind] == nil {
			wrong = append(wrong, r)
		}
		same[kind] = append(same[kind], r.Name)
	}
	for _, r := range wrong {
		f := r.finding(p.Kind)
		if names := same[Resource{Kind: r.Kind, State: r.State, Detail: r.Detail}]; len(names) > 1 {
			f.Message = strings.Replace(f.Message, r.Kind+" "+r.Name, r.Kind+"s "+someOf(names), 1)
			f.Message = strings.Replace(f.Message, " is missing", " are missing", 1)
		}
		found = append(found, *f)
	}
	if fine > 0 {
		found = append(found, Finding{Level: OK, Message: fmt.Sprintf("%d topics and subscriptions exist", fine)})
	}
	return found, nil
}

// someOf lists the first few names and counts the others.
func someOf(names []string) string {
	const most = 5
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// finding is what is wrong with a resource; nil when nothing is.
func (r Resource) finding(kind broker.Kind) *Finding {
	name, detail := r.Kind+" "+r.Name, fmt.Sprintf("%s %s: %s", r.Kind, r.Name, r.Detail)
	switch {
	case r.State == ResourceExists && r.Detail == "":
		return nil
	case r.State == ResourceExists:
		return &Finding{Level: Warn, Message: detail, Remedy: "change it in the broker if that is not meant"}
	case r.State == ResourceMissing && r.Kind == ResourceTopic:
		return &Finding{Level: Fail, Message: name + " is missing", Remedy: "outboxctl topic ensure"}
	case r.State == ResourceMissing:
		return &Finding{Level: Warn, Message: name + " is missing", Remedy: "outboxctl topic ensure"}
	case r.State == ResourceOrphaned:
		return &Finding{Level: Fail, Message: detail, Remedy: "outboxctl topic ensure"}
	case r.State == ResourceDiffers:
		return &Finding{Level: Warn, Message: detail, Remedy: "name another subscription (" + kind.Subscription + ") or delete this one"}
	default:
		return &Finding{Level: Fail, Message: detail, Remedy: kind.Rights}
	}
}
