package registry_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// The command that a hint names is one that stats accepts.
func TestTheHintAboutWaitingEventsCanBeFollowed(t *testing.T) {
	t.Parallel()
	by := regexp.MustCompile(`outboxctl stats --by (\S+) `).FindStringSubmatch(fault.HintOf(registry.ApplyError(catalogue.ErrWaiting)))
	require.Len(t, by, 2)
	require.Contains(t, stats.Dimensions(), by[1])
}
