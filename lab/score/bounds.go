package score

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// bounds is R16: rows inserted past every check of the emitter, one at each limit and one beyond.
func (s *Session) bounds(ctx context.Context) result {
	return s.in(ctx, surroundings{}, func(w *world) result {
		accept, refuse := map[string]string{}, map[string]string{}
		for extra, ids := range map[int]map[string]string{0: accept, 1: refuse} {
			for name, headers := range atBounds() {
				id := uuid.Must(uuid.NewV7()).String()
				ids[id] = name
				w.insert(ctx, id, headers(extra), 0)
			}
			id := uuid.Must(uuid.NewV7()).String()
			ids[id] = "message"
			w.insertOfSize(ctx, id, wire.PubSubLimits().MessageBytes+extra)
		}
		w.publish("publisher")
		w.settled(ctx, time.Minute)
		wrong, sent := 0, 0
		for id, name := range accept {
			if _, ok := w.ledger.firstAt(id); !ok {
				s.say("  at the bound of %s: refused", name)
				wrong++
			}
		}
		for id, name := range refuse {
			if w.count(ctx, `SELECT count(*) FROM outbox_dlq WHERE event_id = $1::text::uuid AND error_reason = 'message_too_large'`, id) != 1 {
				s.say("  beyond the bound of %s: not refused", name)
				wrong++
			}
			if w.ledger.sent(id) {
				sent++
			}
		}
		return judge(wrong == 0 && sent == 0, true, "%d messages at a bound, %d one beyond: %d wrong verdicts, %d rejects sent",
			len(accept), len(refuse), wrong, sent)
	})
}

// atBounds are headers at each bound of the broker, or some beyond.
func atBounds() map[string]func(extra int) map[string]string {
	limits := wire.PubSubLimits()
	return map[string]func(int) map[string]string{
		"attribute name": func(extra int) map[string]string {
			return map[string]string{strings.Repeat("n", limits.AttributeNameBytes+extra): "v"}
		},
		"attribute value": func(extra int) map[string]string {
			return map[string]string{"n": strings.Repeat("v", limits.AttributeValueBytes+extra)}
		},
		"attribute value of several bytes each": func(extra int) map[string]string {
			return map[string]string{"n": strings.Repeat("é",
				limits.AttributeValueBytes/2) + strings.Repeat("v", extra)}
		},
		"number of attributes": func(extra int) map[string]string {
			const ours = 6 // a row without tenant, dedupe key and ordering key has so many
			headers := map[string]string{}
			for i := range limits.Attributes - ours + extra {
				headers[fmt.Sprintf("n%d", i)] = "v"
			}
			return headers
		},
	}
}

// createdAt is what the rows say, so that the length of its text is known.
const createdAt = "2026-01-01T00:00:00.123456Z"

// body is the payload of a row with so much padding; $1 is its id.
const body = `jsonb_build_object('version', 1, 'eventId', $1::text, 'occurredAt', '2026-01-01T00:00:00Z', 'data',
	jsonb_build_object('licenseId', $1::text, 'storeId', $1::text, 'status', 'verified', 'reason', repeat('x', $2::int)))`

// insert writes a row as any program in any language may.
func (w *world) insert(ctx context.Context, id string, headers map[string]string, padding int) {
	text := rig.Must(json.Marshal(headers))
	rig.Must(w.pool.Exec(ctx, `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, created_at, payload_json, headers)
VALUES ($1::text::uuid, 'license_status_changed', 'license', $1::text::uuid, $3::text::timestamptz, `+body+`, nullif($4::text, 'null')::jsonb)`,
		id, padding, createdAt, string(text)))
}

// insertOfSize writes a row whose message weighs exactly so much.
func (w *world) insertOfSize(ctx context.Context, id string, size int) {
	padding := size / 2
	length := w.count(ctx, `SELECT octet_length(`+body+`::text)`, id, padding)
	weight := wire.MessageBytes(length, map[string]string{
		wire.AttrEventID: id, wire.AttrEventType: "license_status_changed", wire.AttrAggregateType: "license",
		wire.AttrAggregateID: id, wire.AttrCreatedAt: createdAt, wire.AttrNamespace: "default",
	})
	w.insert(ctx, id, nil, padding+size-weight)
}
