package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
)

func TestTheOutermostKindAndHintCount(t *testing.T) {
	t.Parallel()
	cause := errors.New("no route")
	err := fault.Hint(fault.As(fault.Precondition, cause), "start %s", "it")
	require.ErrorIs(t, err, cause)
	require.EqualError(t, err, "no route")
	kind, known := fault.KindOf(fmt.Errorf("connect: %w", err))
	require.True(t, known)
	require.Equal(t, fault.Precondition, kind)
	require.Equal(t, "start it", fault.HintOf(fmt.Errorf("connect: %w", err)))

	outer := fault.Hint(fault.As(fault.Usage, err), "type it right")
	kind, _ = fault.KindOf(outer)
	require.Equal(t, fault.Usage, kind)
	require.Equal(t, "type it right", fault.HintOf(outer))

	kind, known = fault.KindOf(cause)
	require.False(t, known)
	require.Equal(t, fault.Failed, kind)
	require.Empty(t, fault.HintOf(cause))
}
