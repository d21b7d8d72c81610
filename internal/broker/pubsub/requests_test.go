package pubsub

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/outboxctl/outboxctl/dispatch"
)

const testPath = "projects/p/topics/pf-domain-events"

// The size that decides whether a request is sent must be the size the broker
// measures, to the byte: one less and a good event dies, one more and a request
// is refused on arrival.
func TestRequestSizeIsTheEncodedSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		lengths := rapid.SampledFrom([]int{0, 1, 2, 126, 127, 128, 1024, 16383, 16384, 70000})
		msgs := make([]dispatch.Message, rapid.IntRange(1, 5).Draw(t, "messages"))
		for i := range msgs {
			msgs[i].Data = make([]byte, lengths.Draw(t, "data"))
			msgs[i].Attributes = map[string]string{}
			for range rapid.IntRange(0, 4).Draw(t, "attributes") {
				key := rapid.StringN(0, 40, 256).Draw(t, "key")
				msgs[i].Attributes[key] = strings.Repeat("v", lengths.Draw(t, "value"))
			}
		}
		parts := slices.Collect(requests(testPath, msgs))
		require.Len(t, parts, 1)
		require.Equal(t, proto.Size(publishRequest(testPath, msgs)), parts[0].bytes)
	})
}

func TestRequestsCoverEveryMessageOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		large := make([]byte, preferredRequestBytes+1)
		msgs := make([]dispatch.Message, rapid.IntRange(0, 2*MaxRequestMessages+1).Draw(t, "messages"))
		for range rapid.IntRange(0, 4).Draw(t, "large") {
			if len(msgs) > 0 {
				msgs[rapid.IntRange(0, len(msgs)-1).Draw(t, "at")].Data = large[:rapid.IntRange(0, len(large)).Draw(t, "size")]
			}
		}
		next := 0
		for part := range requests(testPath, msgs) {
			require.Equal(t, next, part.from)
			require.Greater(t, part.to, part.from)
			count := part.to - part.from
			require.LessOrEqual(t, count, MaxRequestMessages)
			if count > 1 {
				require.LessOrEqual(t, part.bytes, preferredRequestBytes)
			}
			next = part.to
		}
		require.Equal(t, len(msgs), next)
	})
}
