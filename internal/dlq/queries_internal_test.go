package dlq

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A constant of SQL cannot be made of a number: counting stops one after the bound that readers compare with.
func TestBlocksAreCountedToTheirBound(t *testing.T) {
	t.Parallel()
	require.Contains(t, joinBlocked, fmt.Sprintf("LIMIT %d)", BlocksBound+1))
}
