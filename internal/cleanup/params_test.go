package cleanup

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
)

func TestCleanupErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		removed int64
		err     error
		want    fault.Kind
	}{
		"another cleaner from the start": {0, ErrBusy, fault.Precondition},
		"another cleaner in between":     {1000, ErrBusy, fault.Partial},
		"a failure from the start":       {0, errors.New("no"), fault.Failed},
		"a failure in between":           {1000, errors.New("no"), fault.Partial},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, _ := fault.KindOf(unfinished(Result{Events: tc.removed}, tc.err))
			require.Equal(t, tc.want, kind)
		})
	}
}
