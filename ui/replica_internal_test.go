package ui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAReplicaThatIsBehindIsNamed(t *testing.T) {
	t.Parallel()
	require.Nil(t, whyOld(snapshot{Behind: 9 * time.Second}))
	require.Equal(t, "The replica that this page reads is 2m behind.", whyOld(snapshot{Behind: 2 * time.Minute}).Text)
}
