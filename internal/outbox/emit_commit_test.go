package outbox_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

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

	mu   sync.Mutex
	used bool
	wait sync.WaitGroup
}

func newCommitCutter(t *testing.T, db *outboxtest.Database, deliver bool) string {
	t.Helper()
	u, err := url.Parse(db.URL)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &commitCutter{listener: listener, server: u.Host, deliver: deliver}
	c.wait.Go(c.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		c.wait.Wait()
	})
	u.Host = listener.Addr().String()
	query := u.Query()
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return u.String()
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

func emitLines(t *testing.T, pool *pgxpool.Pool, p outbox.EmitParams) ([]outbox.Emitted, error) {
	t.Helper()
	return (&outbox.Outbox{DB: pool, Registry: registry.New()}).Emit(t.Context(), p)
}

// Whether the COMMIT arrived or only its answer got lost cannot be known: the error says so, and nothing is tried again.
func TestEmitAdmitsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for deliver, stored := range map[bool]int{true: 3, false: 0} {
		db := outboxtest.DB(t)
		written, err := emitLines(t, outboxtest.Pool(t, newCommitCutter(t, db, deliver)), outbox.EmitParams{Lines: eventLines(3)})
		require.ErrorContains(t, err, "the answer to COMMIT got lost, so that either all events are written or none: ")
		kind, _ := fault.KindOf(err)
		require.Equal(t, fault.Partial, kind)
		require.Contains(t, fault.HintOf(err), "dedupe key")
		require.Empty(t, written)
		require.Equal(t, stored, storedEvents(t, db), "delivered: %v", deliver)
	}
}

// A COMMIT that the server refuses has an answer: nothing is written.
func TestEmitReportsARefusedCommit(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	_, err := db.Pool.Exec(t.Context(), `
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON outbox_events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	require.NoError(t, err)
	_, err = emitLines(t, db.Pool, outbox.EmitParams{Lines: eventLines(3)})
	require.ErrorContains(t, err, "commit: ERROR: not today")
	kind, _ := fault.KindOf(err)
	require.Equal(t, fault.Failed, kind)
	require.Zero(t, storedEvents(t, db))
}
