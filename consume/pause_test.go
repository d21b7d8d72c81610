package consume

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Pub/Sub's dead-letter policies begin at five deliveries. An event whose worker
// was killed must be free before a message has used that many up.
func TestAHeldEventIsFreeBeforeItsMessageIsDeadLettered(t *testing.T) {
	t.Parallel()
	const fewestDeliveries = 5
	lease := 30 * time.Second
	var waited time.Duration
	for delivery := 1; delivery < fewestDeliveries; delivery++ {
		waited += pauseWhileHeld(delivery, lease)
	}
	require.GreaterOrEqual(t, waited, lease)
	require.Less(t, pauseWhileHeld(1, lease), lease, "a duplicate of an event that is about to finish comes back soon")
}
