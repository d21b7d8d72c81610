package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

func noon() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) }

func events(t *testing.T, seed uint64, count int) []string {
	t.Helper()
	s := newShop(rand.New(rand.NewPCG(seed, seed)), noon)
	var texts []string
	for len(texts) < count {
		scene := s.scene()
		require.LessOrEqual(t, len(scene), longestScene)
		for _, e := range scene {
			text, err := json.Marshal(e)
			require.NoError(t, err)
			texts = append(texts, string(text))
		}
	}
	return texts
}

func TestSameSeedSameEvents(t *testing.T) {
	t.Parallel()
	once, again := events(t, 7, 500), events(t, 7, 500)
	require.Equal(t, once, again)
	require.NotEqual(t, events(t, 7, 500), events(t, 8, 500))
}

func TestEveryEventIsAcceptedAndEveryTypeComesEarly(t *testing.T) {
	t.Parallel()
	catalogue := registry.New()
	emitter := emit.New(catalogue)
	for seed := range uint64(8) {
		s := newShop(rand.New(rand.NewPCG(seed, seed)), noon)
		early, count := map[string]bool{}, 0
		for range 200 {
			for _, e := range s.scene() {
				_, err := emitter.Prepare(e)
				require.NoError(t, err)
				if count++; count <= 60 {
					early[e.Type] = true
				}
			}
		}
		for _, eventType := range catalogue.EventTypes() {
			require.True(t, early[eventType], "seed %d: %s", seed, eventType)
		}
		require.LessOrEqual(t, len(s.orders), openOrders+3)
	}
}

// play runs traffic until it has written some faulty events.
func play(t *testing.T, db *outboxtest.Database, catalogue *registry.Registry) Report {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last Report
	traffic := New(Params{Seed: 1, Rate: 5_000, Report: 0, Now: time.Now}, db.Pool, emit.New(catalogue), func(r Report) {
		if last = r; r.Faulty >= 10 {
			cancel()
		}
	})
	require.NoError(t, traffic.Run(ctx))
	return last
}

func TestTrafficWritesGoodAndFaultyEvents(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	catalogue := registry.New()
	first := play(t, db, catalogue)
	require.Len(t, first.ByType, len(catalogue.EventTypes()))
	second := play(t, db, catalogue) // the same seed meets its own dedupe keys
	require.Less(t, second.ByType[packfinderz.TypePaymentSettled], first.ByType[packfinderz.TypePaymentSettled])

	rows, err := db.Pool.Query(t.Context(), `SELECT event_type, aggregate_type, payload_json->'data', headers FROM outbox_events`)
	require.NoError(t, err)
	defer rows.Close()
	refused, total := map[string]int{}, 0
	for rows.Next() {
		var eventType, aggregateType string
		var data, headers json.RawMessage
		require.NoError(t, rows.Scan(&eventType, &aggregateType, &data, &headers))
		total++
		if why := verdict(t, catalogue, eventType, aggregateType, data, headers); why != "" {
			refused[why]++
		}
	}
	require.NoError(t, rows.Err())
	require.Equal(t, first.Total+second.Total, total)
	require.Equal(t, first.Faulty+second.Faulty, refused["payload"]+refused["aggregate"]+refused["size"])
	for _, why := range []string{"payload", "aggregate", "size"} {
		require.NotZero(t, refused[why], fmt.Sprint(refused))
	}
}

// verdict is the publisher's judgement, by kind.
func verdict(t *testing.T, catalogue *registry.Registry, eventType, aggregateType string, data, headers json.RawMessage) string {
	t.Helper()
	attributes, err := wire.ParseHeaders(headers)
	require.NoError(t, err)
	wanted, _, known := catalogue.Resolve(eventType)
	require.True(t, known)
	switch {
	case wanted != aggregateType:
		return "aggregate"
	case catalogue.Validate(eventType, data) != nil:
		return "payload"
	case wire.PubSubLimits().Check(data, attributes) != nil:
		return "size"
	default:
		return ""
	}
}
