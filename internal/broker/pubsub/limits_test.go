package pubsub

import (
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/outboxctl/outboxctl/emit/wire"
)

func TestMessageBytesIsTheEncodedSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")
		attrs := rapid.MapOfN(rapid.StringN(1, 200, -1), rapid.StringN(0, 300, -1), 0, 8).Draw(t, "attrs")
		want := proto.Size(&pubsubpb.PubsubMessage{Data: body, Attributes: attrs})
		require.Equal(t, want, wire.MessageBytes(len(body), attrs))
	})
	for _, n := range []int{127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 9_999_999} {
		want := proto.Size(&pubsubpb.PubsubMessage{Data: make([]byte, n)})
		require.Equal(t, want, wire.MessageBytes(n, nil))
	}
}

// The largest message that passes still fits a request to the longest topic name
// there is, and one byte more is refused.
func TestTheLargestMessageFitsARequest(t *testing.T) {
	t.Parallel()
	limits := wire.PubSubLimits()
	attrs := map[string]string{wire.AttrEventID: strings.Repeat("x", 36)}
	body := make([]byte, limits.MessageBytes-wire.MessageBytes(0, attrs)-5)
	require.Equal(t, limits.MessageBytes, wire.MessageBytes(len(body), attrs))
	require.NoError(t, limits.Check(body, attrs))

	request := &pubsubpb.PublishRequest{
		Topic:    "projects/" + strings.Repeat("p", 63) + "/topics/" + strings.Repeat("t", 255),
		Messages: []*pubsubpb.PubsubMessage{{Data: body, Attributes: attrs}},
	}
	require.LessOrEqual(t, proto.Size(request), MaxRequestBytes)

	var tooLarge *wire.TooLargeError
	require.ErrorAs(t, limits.Check(append(body, 0), attrs), &tooLarge)
	require.Equal(t, limits.MessageBytes+1, tooLarge.Size)
	require.EqualError(t, tooLarge, "message too large: 9999489 bytes with its attributes, at most 9999488 are allowed")
}
