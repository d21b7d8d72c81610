package pubsub

import (
	"maps"
	"slices"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/traces"
)

// clientTrace is the attribute in which Google's clients look for the trace of a message. Events cannot have it.
const clientTrace = "googclient_traceparent"

// traced gives messages that carry a trace the attribute of Google's clients too, where there is room for it.
func traced(msgs []dispatch.Message) []dispatch.Message {
	limits, all := wire.PubSubLimits(), msgs
	for i, m := range msgs {
		trace := m.Attributes[traces.Parent]
		if !traces.Of(m.Attributes).IsValid() || len(m.Attributes) >= limits.Attributes || limits.CheckSize(m.Size()+len(clientTrace)+len(trace)) != nil {
			continue
		}
		if &all[0] == &msgs[0] {
			all = slices.Clone(msgs)
		}
		all[i].Attributes = maps.Clone(m.Attributes)
		all[i].Attributes[clientTrace] = trace
	}
	return all
}
