package dispatch

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// memAuthority judges some types and leaves the others to another publisher.
type memAuthority struct {
	mu     sync.Mutex
	judges []string
	stood  [][2]string
}

func (a *memAuthority) Refresh(context.Context) error { return nil }

func (a *memAuthority) Judges(_, eventType string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.judges, eventType)
}

func (a *memAuthority) StandDown(namespace, eventType string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stood = append(a.stood, [2]string{namespace, eventType})
}

func (a *memAuthority) Except() map[string][]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	types := map[string][]string{}
	for _, s := range a.stood {
		types[s[0]] = append(types[s[0]], s[1])
	}
	return types
}

// addIn adds a row of a namespace.
func (s *memStore) addIn(namespace, eventType string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, _ := s.insert("", eventType, false)
	row.Namespace = namespace
}

func poisoned(rows []*memRow) {
	for _, r := range rows {
		r.Payload = []byte(`{"version":1,"eventId":"` + r.ID + `","occurredAt":"2026-01-01T00:00:00Z","data":"poison"}`)
	}
}

// Only who has the database's version of a type dead-letters for it: the others give the row back uncharged and leave the type
// alone, until a publisher comes that may judge.
func TestOnlyWhoMayJudgeBuries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := &memAuthority{judges: []string{"blue"}}
		b := newBundle(t, func(c *Config) { c.Authority = former })
		b.store.add(1, "blue")
		poisoned(b.store.add(1, "blue"))
		poisoned(b.store.add(1, "red"))
		b.store.add(1, "green") // in no catalogue here
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Minute)
		b.store.addIn("elsewhere", "red")
		time.Sleep(time.Minute)
		stop()
		all := b.store.all()
		require.True(t, isPublished(all[0]))
		require.Equal(t, outbox.ReasonInvalidPayload, all[1].dead, "its version of blue is the database's")
		require.True(t, isPublished(all[4]), "in another namespace the type is another")
		for _, row := range all[2:4] {
			require.Empty(t, row.dead, row.EventType)
			require.Zero(t, row.AttemptCount)
			require.Contains(t, row.lastError, "left to a publisher that has the recorded catalogue")
		}
		require.Equal(t, map[string][]string{"": {"red", "green"}}, former.Except(), "each was claimed once")

		current := b.another(t, func(c *Config) { c.Authority = &memAuthority{judges: []string{"red", "green"}} })
		start(t, current)
		time.Sleep(time.Minute)
		all = b.store.all()
		require.Equal(t, outbox.ReasonInvalidPayload, all[2].dead)
		require.Equal(t, outbox.ReasonUnknownEventType, all[3].dead)
	})
}

// What an emitter of another program wrote is published as it is; the attribute tells the id.
func TestAnotherEventIDIsPublishedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, nil)
		row := b.store.add(1, "red")[0]
		row.Payload = []byte(`{"version":1,"eventId":"018f3f6e-0000-7000-8000-0000000000ff","occurredAt":"2026-01-01T00:00:00Z","data":{}}`)
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Second)
		stop()
		require.True(t, isPublished(b.store.all()[0]))
		require.Equal(t, row.ID, b.broker.messages[row.ID].Attributes["event_id"])
		require.Equal(t, string(row.Payload), string(b.broker.messages[row.ID].Data))
		require.True(t, b.observer.attempts[0].Row.Notes.OtherID)
	})
}

// Whether there is an envelope is the type's to say, so only who has the database's version of it dead-letters for a missing one;
// headers that cannot be read are wrong by any version.
func TestAMissingEnvelopeIsJudgedByTheType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBundle(t, func(c *Config) { c.Authority = &memAuthority{} })
		bare, broken := b.store.add(1, "red")[0], b.store.add(1, "red")[0]
		bare.Payload = []byte(`{"tokens": 12}`)
		broken.Headers = []byte(`[1]`)
		stop := start(t, b.Dispatcher)
		time.Sleep(time.Minute)
		stop()
		all := b.store.all()
		require.Empty(t, all[0].dead)
		require.Zero(t, all[0].AttemptCount)
		require.Equal(t, outbox.ReasonInvalidPayload, all[1].dead)
	})
}
