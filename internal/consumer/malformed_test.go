package consumer_test

import (
	"encoding/json"
	"maps"
	"sync/atomic"
	"testing"

	gcppubsub "cloud.google.com/go/pubsub/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/examples/notifications"
	"github.com/outboxctl/outboxctl/internal/broker/pubsub"
	"github.com/outboxctl/outboxctl/internal/consumer"
)

func malformed() map[string]*gcppubsub.Message {
	id := uuid.Must(uuid.NewV7())
	withBody := func(body string) *gcppubsub.Message {
		m := license(id, "pending", "")
		m.Data = []byte(body)
		return m
	}
	withoutAttr := func(name string) *gcppubsub.Message {
		m := license(id, "pending", "")
		m.Attributes = maps.Clone(m.Attributes)
		delete(m.Attributes, name)
		return m
	}
	with := func(name string, value any) *gcppubsub.Message {
		m := license(id, "pending", "")
		var body map[string]any
		_ = json.Unmarshal(m.Data, &body)
		body[name] = value
		m.Data, _ = json.Marshal(body)
		return m
	}
	data := func(data string) *gcppubsub.Message { return message(id, notifications.EventType, data) }
	return map[string]*gcppubsub.Message{
		"no event id":     withoutAttr("event_id"),
		"no event type":   withoutAttr("event_type"),
		"no body":         withBody(""),
		"broken body":     withBody(`{"version":1`),
		"not an object":   withBody(`[1]`),
		"unknown version": with("version", 2),
		"no version":      with("version", nil),
		"null data":       with("data", nil),
		"wrong data":      data(`{"licenseId":7}`),
		"half a payload":  data(`{"status":"pending"}`),
		"unknown status":  data(`{"licenseId":"` + uuid.NewString() + `","storeId":"` + uuid.NewString() + `","status":"lost"}`),
		"nul in reason":   data(`{"licenseId":"` + uuid.NewString() + `","storeId":"` + uuid.NewString() + `","status":"rejected","reason":"a\u0000b"}`),
	}
}

// Malformed messages are given back as often as the dead-letter policy allows,
// then they are in the dead-letter topic and the worker never sees them again.
func TestMalformedMessagesAreDeadLettered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := malformed()
	msgs := make([]*gcppubsub.Message, 0, len(bad))
	for _, m := range bad {
		msgs = append(msgs, m)
	}
	w.publish(msgs...)
	ids := newIDs(50)
	for _, id := range ids {
		w.publish(license(id, "pending", ""))
	}
	var good atomic.Int64
	stop := w.running(w.hasty(consumer.Config{Hooks: consumer.Hooks{AfterDone: func(uuid.UUID) { good.Add(1) }}}))
	w.eventually(func() bool { return good.Load() == 50 }, "good messages pass the bad ones")
	dead := map[string]bool{}
	w.eventually(func() bool {
		for _, id := range w.deadLettered() {
			dead[id] = true
		}
		return len(dead) == len(bad)
	}, "all are dead-lettered")
	report := stop()
	// The fake counts a delivery that its stream lost as well, hence "at most".
	require.LessOrEqual(t, report.Malformed, int64(len(bad)*pubsub.MaxDeliveryAttempts), "none is tried more often than the policy says")
	require.Greater(t, report.Malformed, int64(len(bad)), "each is given back, not dropped")
	require.Equal(t, once(ids), w.effects())
}

func TestAnEmptyPayloadIsNothingToTell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(message(uuid.Must(uuid.NewV7()), notifications.EventType, `{}`))
	report := w.drained(w.worker(consumer.Config{}))
	require.EqualValues(t, 1, report.Processed)
	require.Zero(t, report.Failed+report.Malformed)
	require.Empty(t, w.effects())
}
