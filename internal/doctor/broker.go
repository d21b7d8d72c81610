package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// Whether events with an ordering key wait, by outbox_events_turn_idx.
const orderedEvents = `
SELECT EXISTS (SELECT FROM outbox_events WHERE ordering_key IS NOT NULL AND published_at IS NULL AND passed_at IS NULL)`

// broker looks at topics and subscriptions, and, where events have an ordering key, whether these
// can keep its order.
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
	client, plan, err := p.Broker(ctx)
	if err != nil {
		return nil, err
	}
	resources, err := client.Ensure(ctx, broker.EnsureParams{Plan: plan, DryRun: true, Ordered: keys})
	if err != nil && !errors.Is(err, broker.ErrIncomplete) {
		return nil, err
	}
	var found []Finding
	for _, f := range client.Findings(keys) {
		level := OK
		if f.Warn {
			level = Warn
		}
		found = append(found, Finding{Level: level, Message: f.Message, Remedy: f.Remedy})
	}
	fine := 0
	alike := func(a broker.Action) broker.Action {
		return broker.Action{Kind: a.Kind, Outcome: a.Outcome, Detail: a.Detail}
	}
	same := map[broker.Action][]string{} // what is wrong, and with which
	var wrong []broker.Action
	for _, a := range resources {
		if exists(a) {
			fine++
		}
		if resourceFinding(a, p.Kind) == nil {
			continue
		}
		if same[alike(a)] == nil {
			wrong = append(wrong, a)
		}
		same[alike(a)] = append(same[alike(a)], a.Name)
	}
	for _, a := range wrong {
		f := resourceFinding(a, p.Kind)
		if names := same[alike(a)]; len(names) > 1 {
			f.Message = strings.Replace(f.Message, a.Kind+" "+a.Name, a.Kind+"s "+someOf(names), 1)
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

func exists(a broker.Action) bool {
	return a.Outcome == broker.OutcomeExists || a.Outcome == broker.OutcomeCreated
}

// resourceFinding is what is wrong with a topic or a subscription; nil when nothing is.
func resourceFinding(a broker.Action, kind broker.Kind) *Finding {
	name, detail := a.Kind+" "+a.Name, fmt.Sprintf("%s %s: %s", a.Kind, a.Name, a.Detail)
	switch {
	case exists(a) && a.Detail == "":
		return nil
	case exists(a):
		return &Finding{Level: Warn, Message: detail, Remedy: "change it in the broker if that is not meant"}
	case a.Outcome == broker.OutcomeMissing && a.Kind == broker.KindTopic:
		return &Finding{Level: Fail, Message: name + " is missing", Remedy: "outboxctl topic ensure"}
	case a.Outcome == broker.OutcomeMissing:
		return &Finding{Level: Warn, Message: name + " is missing", Remedy: "outboxctl topic ensure"}
	case a.Outcome == broker.OutcomeOrphaned:
		return &Finding{Level: Fail, Message: detail, Remedy: "run outboxctl topic ensure, which prints the steps that lose no event"}
	case a.Outcome == broker.OutcomeDiffers:
		return &Finding{Level: Warn, Message: detail, Remedy: "name another subscription (" + kind.Subscription + ") or delete this one"}
	default:
		return &Finding{Level: Fail, Message: detail, Remedy: kind.Rights}
	}
}
