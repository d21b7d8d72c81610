package torture

import (
	"path"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/devstack"
	"github.com/outboxctl/outboxctl/lab/history"
)

// record notes what reached the broker and what it answered.
func (w *world) record(at time.Time, a devstack.PublishAnswer) {
	now := time.Now()
	for i, m := range a.Messages {
		arrival := history.Arrival{
			At: at, Answered: now, Request: a.Number, EventID: m.GetAttributes()["event_id"], Topic: path.Base(a.Topic),
			Stored: i < len(a.Stored), ReplyLost: a.ReplyLost, OrderingKey: m.GetOrderingKey(),
		}
		if a.Err != nil {
			arrival.Code = status.Code(a.Err).String()
		}
		if arrival.Stored {
			arrival.MessageID, arrival.Data, arrival.Attributes = a.Stored[i], string(m.GetData()), m.GetAttributes()
			// The fake and a stream number messages under the lock that they store them under.
			id := a.Stored[i]
			arrival.Order, _ = strconv.ParseInt(id[strings.LastIndexAny(id, "m/")+1:], 10, 64)
			if w.cfg.Broker == "http" {
				arrival.MessageID = arrival.EventID // a service gives none
			}
		}
		w.rec.Add(arrival)
	}
}
