package why_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func TestParseID(t *testing.T) {
	t.Parallel()
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	for text, want := range map[string]string{
		id:                                     id,
		"01890A5D-AC96-774B-BCCE-B302099A8057": id,
		" " + id + "\n":                        id,
		"":                                     "",
		"odd":                                  "",
		id[:35]:                                id[:35],
		id[:8]:                                 id[:8],
		" " + strings.ToUpper(id[:11]) + "\n":  id[:11],
		id[:9]:                                 id[:9],
		id[:7]:                                 "",
		"01890a5dac":                           "",
		"01890a5-dac":                          "",
		"01890a5x":                             "",
		id + "0":                               "",
		"{" + id + "}":                         "",
		"urn:uuid:" + id:                       "",
		"01890a5dac96774bbcceb302099a8057":     "",
		"00000000-0000-0000-0000-000000000000": "",
	} {
		got, err := outbox.ParseID(text)
		require.Equal(t, want, got, "%q", text)
		if want == "" {
			kind, _ := fault.KindOf(err)
			require.Equal(t, fault.Usage, kind, "%q", text)
			require.ErrorContains(t, err, "is not an id")
			continue
		}
		require.NoError(t, err, "%q", text)
	}
}
