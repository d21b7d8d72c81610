package dispatch_test

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

var errAwayDB = errors.New("connection refused")

// away is a database that does not answer.
type away struct{}

func (away) Exec(context.Context, string, ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, errAwayDB
}
