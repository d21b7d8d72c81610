package fault_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/fault"
)

func TestADatabaseErrorHasAKindAndAHint(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		kind fault.Kind
		hint string
	}{
		pgerrcode.UndefinedTable:            {fault.Precondition, "outboxctl migrate"},
		pgerrcode.UndefinedColumn:           {fault.Precondition, "outboxctl migrate"},
		pgerrcode.UndefinedFunction:         {fault.Precondition, "outboxctl migrate"},
		pgerrcode.UndefinedObject:           {fault.Precondition, "outboxctl migrate"},
		pgerrcode.InsufficientPrivilege:     {fault.Precondition, "outboxctl migrate grants"},
		pgerrcode.InvalidTextRepresentation: {fault.Usage, "outboxctl registry list"},
		pgerrcode.ReadOnlySQLTransaction:    {fault.Precondition, "replica"},
		pgerrcode.SyntaxError:               {fault.Failed, ""},
		"OX300":                             {fault.Usage, ""},
	} {
		err := fault.Database(fmt.Errorf("read: %w", &pgconn.PgError{Code: code, Message: "no"}))
		kind, _ := fault.KindOf(err)
		require.Equal(t, want.kind, kind, code)
		require.Contains(t, fault.HintOf(err), want.hint, code)
		require.ErrorContains(t, err, "no", code)
	}
	plain := errors.New("plain")
	require.Equal(t, plain, fault.Database(plain))
	require.NoError(t, fault.Database(nil))
}
