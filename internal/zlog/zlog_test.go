package zlog_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/zlog"
)

func TestALineHasOneTime(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	zlog.Slog(zerolog.New(&out).With().Timestamp().Logger()).With("a", 1).WithGroup("g").Info("said", "b", 2)
	require.Equal(t, 1, strings.Count(out.String(), `"time"`), out.String())
	require.Contains(t, out.String(), `a":1`)
}
