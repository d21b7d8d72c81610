package pubsub

import (
	"maps"
	"regexp"
	"slices"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// clientTrace is the attribute in which Google's clients look for the trace of a message. Events cannot have it.
const clientTrace = "googclient_traceparent"

var aTrace = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// traced gives messages that carry a trace the attribute of Google's clients too, where there is room for it.
func traced(msgs []dispatch.Message) []dispatch.Message {
	limits, all := wire.PubSubLimits(), msgs
	for i, m := range msgs {
		trace := m.Attributes["traceparent"]
		if !aTrace.MatchString(trace) || len(m.Attributes) >= limits.Attributes || limits.CheckSize(m.Size()+len(clientTrace)+len(trace)) != nil {
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
