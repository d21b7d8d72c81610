package dispatch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

// A publisher of many topics on which nothing is sent is ready: the questions are not those of an outage, which come one
// after the other.
func TestManyQuietTopicsAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{}
		for i := range 60 {
			cfg.Names = append(cfg.Names, memNames(fmt.Sprint(i))...)
		}
		d, err := New(cfg, &memStore{}, newMemBroker(), memCatalogue{}, &memObserver{}, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var running sync.WaitGroup
		for _, topic := range column(d.Topics(), func(s TopicReport) string { return s.Topic }) {
			running.Go(func() { require.NoError(t, d.TopicReady(ctx, topic)) })
		}
		running.Wait()
	})
}

// A paused topic that none of the types in scope goes to does not become one of the publisher's own.
func TestAPausedTopicOutOfScope(t *testing.T) {
	b := newBundle(t, func(cfg *Config) {
		cfg.Paused = func() []outbox.Pause {
			return []outbox.Pause{{Kind: outbox.PauseTopic, Value: "greens"}, {Kind: outbox.PauseTopic, Value: "reds"}}
		}
	})
	require.Equal(t, "red", strings.Join(b.paused(), " "))
	require.Equal(t, []string{"blues", "reds"}, column(b.Topics(), func(s TopicReport) string { return s.Topic }))
}
