package outbox

import (
	"fmt"
	"strings"
	"testing"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func TestMessageBytesIsTheEncodedSize(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")
		attrs := rapid.MapOfN(rapid.StringN(1, 200, -1), rapid.StringN(0, 300, -1), 0, 8).Draw(t, "attrs")
		want := proto.Size(&pubsubpb.PubsubMessage{Data: body, Attributes: attrs})
		require.Equal(t, want, MessageBytes(len(body), attrs))
	})
	for _, n := range []int{127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 9_999_999} {
		want := proto.Size(&pubsubpb.PubsubMessage{Data: make([]byte, n)})
		require.Equal(t, want, MessageBytes(n, nil))
	}
}

// The largest message that passes still fits a request to the longest topic name
// there is, and one byte more is refused.
func TestTheLargestMessageFitsARequest(t *testing.T) {
	t.Parallel()
	attrs := map[string]string{AttrEventID: strings.Repeat("x", 36)}
	body := make([]byte, MaxMessageBytes-MessageBytes(0, attrs)-5)
	require.Equal(t, MaxMessageBytes, MessageBytes(len(body), attrs))
	require.NoError(t, CheckLimits(body, attrs))

	request := &pubsubpb.PublishRequest{
		Topic:    "projects/" + strings.Repeat("p", 63) + "/topics/" + strings.Repeat("t", 255),
		Messages: []*pubsubpb.PubsubMessage{{Data: body, Attributes: attrs}},
	}
	require.LessOrEqual(t, proto.Size(request), MaxRequestBytes)

	var tooLarge *TooLargeError
	require.ErrorAs(t, CheckLimits(append(body, 0), attrs), &tooLarge)
	require.Equal(t, MaxMessageBytes+1, tooLarge.Size)
	require.EqualError(t, tooLarge, "message too large: 9999489 bytes with its attributes, at most 9999488 are allowed")
}

func TestAttributeLimits(t *testing.T) {
	t.Parallel()
	many := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("k%d", i)] = "v"
		}
		return m
	}
	for _, c := range []struct {
		name  string
		attrs map[string]string
		want  string
	}{
		{"100 attributes", many(100), ""},
		{"101 attributes", many(101), "attributes too large: 101 attributes, at most 100 are allowed"},
		{"name of 256 bytes", map[string]string{strings.Repeat("k", 256): ""}, ""},
		{"name of 257 bytes", map[string]string{strings.Repeat("k", 257): ""}, "at most 256"},
		{"name of 257 bytes in fewer runes", map[string]string{strings.Repeat("é", 128) + "k": ""}, "at most 256"},
		{"value of 1,024 bytes", map[string]string{"k": strings.Repeat("v", 1024)}, ""},
		{"value of 1,025 bytes", map[string]string{"k": strings.Repeat("v", 1025)}, "at most 1024"},
		{"no name", map[string]string{"": "v"}, "has no name"},
		{"goog", map[string]string{"goog": "v"}, "keeps for itself"},
		{"googclient_x", map[string]string{"googclient_x": "v"}, "keeps for itself"},
		{"Goog-x", map[string]string{"Goog-x": "v"}, "keeps for itself"},
		{"goo", map[string]string{"goo": "v"}, ""},
		{"broken UTF-8", map[string]string{"k": "\xff"}, "not valid UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			err := CheckLimits([]byte(`{}`), c.attrs)
			if c.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.want)
			}
		})
	}
}
