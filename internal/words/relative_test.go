package words_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/words"
)

// The nearest unit: an hour and 59 minutes are two hours.
func TestRelative(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 59 * time.Second: "59 seconds from now", 119 * time.Second: "2 minutes from now", -119 * time.Minute: "2 hours ago",
		89 * time.Minute: "1 hour from now", -47 * time.Hour: "2 days ago", 6*24*time.Hour + 23*time.Hour: "1 week from now",
	} {
		require.Equal(t, want, words.Relative(now.Add(d), now))
	}
}
