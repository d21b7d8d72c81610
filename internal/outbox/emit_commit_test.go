package outbox_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

// commitCutter stands between client and server and cuts the connection of the first
// COMMIT: before it arrives, or after it is done but before the client hears of it.
type commitCutter struct {
	listener net.Listener
	server   string
	deliver  bool
	deaf     bool // accept no connection after the cut

	mu   sync.Mutex
	used bool
	wait sync.WaitGroup
}

func newCommitCutter(t *testing.T, db *outboxtest.Database, deliver, deaf bool) (*commitCutter, string) {
	t.Helper()
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &commitCutter{listener: listener, server: u.Host, deliver: deliver, deaf: deaf}
	c.wait.Go(c.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		c.wait.Wait()
	})
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return c, u.String()
}

func (c *commitCutter) accept() {
	for {
		client, err := c.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", c.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		cut := make(chan struct{})
		c.wait.Go(func() {
			defer client.Close()
			defer server.Close()
			c.requests(client, server, cut)
		})
		c.wait.Go(func() {
			defer client.Close()
			defer server.Close()
			c.answers(server, client, cut)
		})
	}
}

func (c *commitCutter) requests(client, server net.Conn, cut chan struct{}) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(buffer[:n], []byte("commit\x00")) && c.first() {
			if c.deaf {
				_ = c.listener.Close()
			}
			if !c.deliver {
				return
			}
			close(cut)
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// answers passes the server's messages on. After the cut it swallows the answer, which
// also means that the COMMIT is over.
func (c *commitCutter) answers(server, client net.Conn, cut chan struct{}) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-cut:
			return
		default:
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (c *commitCutter) first() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.used
	c.used = true
	return first
}

// emitLines runs Emit on a text and returns the events that were reported as committed.
func emitLines(t *testing.T, pool *pgxpool.Pool, p outbox.EmitParams) (committed []outbox.Emitted, result outbox.EmitResult, err error) {
	t.Helper()
	p.Committed = func(events []outbox.Emitted) error {
		committed = append(committed, events...)
		return nil
	}
	result, err = (&outbox.Outbox{DB: pool, Registry: registry.New()}).Emit(t.Context(), p)
	return committed, result, err
}

// The COMMIT arrived, its answer did not: the events are there once, and known to be.
func TestEmitSurvivesALostCommitReply(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, url := newCommitCutter(t, db, true, false)
	committed, result, err := emitLines(t, outboxtest.Pool(t, url), outbox.EmitParams{Lines: eventLines(3), TxSize: 2})
	require.NoError(t, err)
	require.Len(t, committed, 3)
	require.Equal(t, outbox.EmitResult{Events: 3, Line: 3}, result)
	require.Equal(t, 3, storedEvents(t, db))
}

// The COMMIT never arrived: nothing is there, and nothing was tried again.
func TestEmitReportsALostCommit(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, url := newCommitCutter(t, db, false, false)
	committed, result, err := emitLines(t, outboxtest.Pool(t, url), outbox.EmitParams{Lines: eventLines(3), TxSize: 2})
	require.ErrorContains(t, err, "commit: ")
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Failed, kind)
	require.Empty(t, committed)
	require.Zero(t, result)
	require.Zero(t, storedEvents(t, db))
}

// The server cannot be asked: the error admits that the outcome is not known, and for which lines.
func TestEmitAdmitsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, url := newCommitCutter(t, db, true, true)
	emitter := emit.New(registry.New())
	prepared, err := outbox.PrepareLine(emitter, []byte(eventLine("{}")))
	require.NoError(t, err)
	box := &outbox.Outbox{DB: outboxtest.Pool(t, url)}

	err = box.EmitPrepared(t.Context(), emitter, 500*time.Millisecond, map[int]emit.Prepared{7: prepared, 9: prepared})
	require.ErrorContains(t, err, "connection lost while committing lines 7 to 9, and it could not be found out")
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Partial, kind)
}
