package ui

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
)

// A snapshot whose answers do not come is given up, and the page says why its figures are old.
func TestASnapshotThatIsNotAnswered(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	tx, err := db.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `LOCK TABLE outbox_dlq IN ACCESS EXCLUSIVE MODE`)
	require.NoError(t, err)

	s := newSnapshots(newReader(Config{ReadPool: db.Pool, ReadRole: DefaultReadRole, QueryTimeout: time.Hour}), DefaultRefresh, 5)
	require.Equal(t, 12*time.Hour, s.limit, "each statement may have its time")
	s.limit = 100 * time.Millisecond
	patient, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next, err := s.take(patient)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, patient.Err(), "the snapshot has a limit of its own")
	s.keep(next, err)
	require.Equal(t, http.StatusServiceUnavailable, statusOf(s.peek().Err))
	require.Equal(t, "The database does not answer.", whyOld(s.peek()).Text)
}
