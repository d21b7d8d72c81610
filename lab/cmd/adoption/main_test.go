package main

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/adoption"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// What the program's plan says is what the lab reads from it.
func TestFiguresAreThoseOfAPlan(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(adoption.Adoption{
		Adoption: migrate.Adoption{Waiting: 1, TableBytes: 2, IndexBytes: 3, Seconds: 19, GrowthBytes: 5, WALBytes: 6},
		Backlog:  registry.Backlog{Publish: 7, OtherEventID: 8},
	})
	require.NoError(t, err)
	var got figures
	require.NoError(t, json.Unmarshal(text, &got))
	want := figures{Waiting: 1, TableBytes: 2, IndexBytes: 3, Seconds: 19, GrowthBytes: 5, WALBytes: 6}
	want.Backlog.Publish, want.Backlog.OtherEventID = 7, 8
	require.Equal(t, want, got)
	require.NoError(t, got.kept(57*time.Second))
	require.ErrorContains(t, got.kept(58*time.Second), "more than three times")
	require.NoError(t, figures{Seconds: 0.1}.kept(3*time.Second))
}

func TestEventsAreTallied(t *testing.T) {
	t.Parallel()
	s := &site{
		written: []string{"published", "by the job", "lost", "twice", "by both"},
		seen:    map[string]int{"published": 1, "twice": 2, "by both": 1}, jobbed: map[string]int{"by the job": 1, "by both": 1},
	}
	lost, doubled := s.tally()
	require.Equal(t, []int{1, 2}, []int{lost, doubled})
}

// The page that is tried has what is tried of it, and a way that is none is refused before anything is started.
func TestThePageHasTheWays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/adoption.md")
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(page), "```sql\n-- path B\n"))
	require.Equal(t, 1, strings.Count(string(page), "```sql\n-- path B, what waits\n"))
	require.ErrorContains(t, run(t.Context(), []string{"D"}, io.Discard, io.Discard), `"D" is none of`)
}
