package main

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/migrate"
)

func TestAPlanIsKept(t *testing.T) {
	t.Parallel()
	found := migrate.Adoption{Seconds: 19}
	require.NoError(t, kept(found, 57*time.Second))
	require.ErrorContains(t, kept(found, 58*time.Second), "more than three times")
	require.NoError(t, kept(migrate.Adoption{Seconds: 0.1}, 3*time.Second))
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
