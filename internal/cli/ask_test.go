package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
)

func TestAsk(t *testing.T) {
	t.Parallel()
	q := Question{Text: "a letter", Flag: "letter", Default: "a", Check: func(answer string) error {
		if len(answer) != 1 {
			return errors.New("not a letter")
		}
		return nil
	}}
	var said bytes.Buffer
	app := NewApp(Streams{In: strings.NewReader("bb\nc\n\n"), Err: &said, InTTY: true, ErrTTY: true}, nil)
	for _, want := range []string{"c", "a"} {
		got, err := app.Ask(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, "a letter [a]: not a letter\na letter [a]: a letter [a]: ", said.String())
	_, err := app.Ask(t.Context(), q)
	require.EqualError(t, err, "--letter: is not given", "nobody is there any more")

	quiet := NewApp(Streams{In: strings.NewReader("b\n"), Err: &said}, nil)
	for given, want := range map[string]string{"": "a", "d": "d"} {
		q.Given = given
		got, err := quiet.Ask(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	q.Given = "dd"
	_, err = quiet.Ask(t.Context(), q)
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Usage, kind)
	require.ErrorContains(t, err, "--letter: not a letter")
}
