package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/lab/rig"
)

const (
	maxEmitCost = 1.5 // over a plain INSERT of the same row
	emitSlices  = 20  // turns of every way
	emitCalls   = 20  // single events in a turn
	emitBulk    = 500 // events in a call of many
)

// Emission is what each way of writing an event took.
type Emission struct {
	Ways []EmitWay `json:"ways"`
}

// EmitWay is one of them: microseconds per event, the tenth part of the turns that took least.
type EmitWay struct {
	Catalogue string  `json:"catalogue"`
	Name      string  `json:"name"`
	Processor float64 `json:"processorMicros,omitempty"`
	Clock     float64 `json:"clockMicros"`
	// Over is the processor time over that of the INSERT, or the clock's where the system does not
	// say.
	Over float64 `json:"overInsert"`

	sql       string
	per       int
	args      func(n int) []any
	conn      *pgx.Conn
	cpu, wall []float64
}

// lines prints it for a person.
func (e *Emission) lines(line func(name, format string, args ...any)) {
	for _, w := range e.Ways {
		line(w.Catalogue+", "+w.Name, "%.1f µs of the database's processor, %.1f µs by the clock; %.2f × the INSERT", w.Processor, w.Clock, w.Over)
	}
}

func emitting(ctx context.Context, s *Session, p Params) *Report {
	all := &Emission{}
	var report *Report
	for _, p := range []Params{p, p.withTypes("object")} {
		report = s.trial(ctx, p, func(t *Trial) *Report {
			all.Ways = append(all.Ways, emitWays(ctx, t)...)
			return t.report()
		})
	}
	report.Extra = all
	if p.Check {
		for _, w := range all.Ways {
			if !strings.HasSuffix(w.Name, "INSERT") {
				report.AtMost(w.Catalogue+": "+w.Name+" over an INSERT", w.Over, maxEmitCost)
			}
		}
	}
	return report
}

// emitWays measures every way in turns, each on a connection of its own. A single event is a
// transaction of its own.
func emitWays(ctx context.Context, t *Trial) []EmitWay {
	t.say("emit: %d types", len(t.types))
	ways := waysOf(t.types[0].name, `{"note": "`+strings.Repeat("x", max(t.PayloadBytes-100, 1))+`"}`)
	for i := range ways {
		w := &ways[i]
		w.Catalogue, w.conn = fmt.Sprintf("%d types", len(t.types)), rig.Must(pgx.Connect(ctx, t.url))
		defer func() { _ = w.conn.Close(context.WithoutCancel(ctx)) }() // the database is dropped
		w.turn(ctx, 10)
		w.cpu, w.wall = nil, nil
	}
	for range emitSlices {
		for i := range ways {
			ways[i].turn(ctx, max(emitCalls/ways[i].per, 1))
		}
	}
	var insert EmitWay
	for i := range ways {
		w := &ways[i]
		w.Processor, w.Clock = tenth(w.cpu), tenth(w.wall)
		if strings.HasSuffix(w.Name, "INSERT") {
			insert = *w
		}
		if w.Over = w.Clock / insert.Clock; insert.Processor > 0 {
			w.Over = w.Processor / insert.Processor
		}
	}
	return ways
}

func tenth(took []float64) float64 {
	slices.Sort(took)
	return took[len(took)/10]
}

func (w *EmitWay) turn(ctx context.Context, n int) {
	calls := make([][]any, n)
	for i := range calls {
		calls[i] = w.args(w.per)
	}
	pid, began := fmt.Sprint(w.conn.PgConn().PID()), time.Now()
	before := scheduled(pid)
	for _, args := range calls {
		rig.Must(w.conn.Exec(ctx, w.sql, args...))
	}
	events := float64(n * w.per)
	w.cpu = append(w.cpu, float64((scheduled(pid)-before).Nanoseconds())/1000/events)
	w.wall = append(w.wall, float64(time.Since(began).Nanoseconds())/1000/events)
}

// waysOf are the INSERT and what is compared with it, singly and in bulk.
func waysOf(kind, data string) []EmitWay {
	row := func() []any {
		id := rig.Must(uuid.NewV7()).String()
		return []any{id, kind, aggregate, uuid.NewString(),
			`{"version": 1, "eventId": "` + id + `", "occurredAt": "2026-01-02T03:04:05.123456Z", "data": ` + data + `}`}
	}
	const insert = `INSERT INTO outbox_events (id, event_type, aggregate_type, aggregate_id, payload_json) VALUES `
	var tuples []string
	for n := range emitBulk {
		tuples = append(tuples, fmt.Sprintf("($%d, $%d, $%d, $%d, $%d)", 5*n+1, 5*n+2, 5*n+3, 5*n+4, 5*n+5))
	}
	plain := func(n int) []any {
		events := make([]map[string]any, n)
		for i := range events {
			events[i] = map[string]any{"event_type": kind, "aggregate_id": uuid.NewString(), "data": json.RawMessage(data)}
		}
		return []any{string(rig.Must(json.Marshal(events)))}
	}
	finished := func(n int) []any {
		events := make([]map[string]any, n)
		for i := range events {
			r := row()
			events[i] = map[string]any{"id": r[0], "event_type": kind, "aggregate_id": r[3], "payload": json.RawMessage(r[4].(string))}
		}
		return []any{string(rig.Must(json.Marshal(events)))}
	}
	many := `SELECT ord, id, already_enqueued FROM outbox_emit_many($1::text::jsonb)`
	one := func(int) []any { return []any{kind, uuid.NewString(), data} }
	return []EmitWay{
		{Name: "INSERT", per: 1, sql: insert + "($1, $2, $3, $4, $5)", args: func(int) []any { return row() }},
		{Name: "outbox_emit", per: 1, sql: `SELECT id, already_enqueued FROM outbox_emit($1, NULL, $2::text, $3)`, args: one},
		{Name: fmt.Sprintf("%d in an INSERT", emitBulk), per: emitBulk, sql: insert + strings.Join(tuples, ", "), args: func(n int) (args []any) {
			for range n {
				args = append(args, row()...)
			}
			return args
		}},
		{Name: fmt.Sprintf("%d in outbox_emit_many", emitBulk), per: emitBulk, sql: many, args: plain},
		{Name: fmt.Sprintf("%d finished in outbox_emit_many", emitBulk), per: emitBulk, sql: many, args: finished},
	}
}
