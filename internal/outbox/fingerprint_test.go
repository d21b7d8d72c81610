package outbox

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFingerprintIgnoresWhatDiffers(t *testing.T) {
	t.Parallel()
	same := []string{
		`rpc error: code = Internal desc = cannot store "a b" (id 018f3a5c-7e1b-7c3d-9a4e-5f6071829304) after 250 ms at 2026-01-02T03:04:05.678Z from 10.0.0.7:8085`,
		`rpc error: code = Internal desc = cannot store "c"   (id 018f3a5c-7e1b-7c3d-9a4e-000000000000) after 9 ms at 2025-11-30 23:59:59+02:00 from 10.1.22.3:443`,
	}
	require.Equal(t, Fingerprint(ReasonMaxAttempts, same[0]), Fingerprint(ReasonMaxAttempts, same[1]))
	require.NotEqual(t, Fingerprint(ReasonMaxAttempts, same[0]), Fingerprint(ReasonInvalidPayload, same[0]))
	require.NotEqual(t, Fingerprint(ReasonMaxAttempts, "topic missing"), Fingerprint(ReasonMaxAttempts, "topic forbidden"))
	require.Equal(t, `cannot store <value> (id <id>) after <n> ms at <time> from <address>`,
		NormalizeError(same[0][len("rpc error: code = Internal desc = "):]))
}
