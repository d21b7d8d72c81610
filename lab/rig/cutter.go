package rig

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
)

// Cutter stands between producers and the database and now and then cuts a connection at the worst
// moment: the COMMIT is delivered, its answer is not. It counts how often an answer was waited for.
type Cutter struct {
	listener   net.Listener
	server     string
	share      float64
	roundTrips atomic.Int64

	mu     sync.Mutex
	random *rand.Rand
	cuts   int
	conns  map[net.Conn]bool
	wait   sync.WaitGroup
}

// NewCutter listens in front of a server and cuts this share of the commits.
func NewCutter(server string, share float64, random *rand.Rand) (*Cutter, error) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &Cutter{listener: listener, server: server, share: share, random: random,
		conns: map[net.Conn]bool{}}
	c.wait.Go(c.accept)
	return c, nil
}

// Addr is where producers connect.
func (c *Cutter) Addr() string { return c.listener.Addr().String() }

// RoundTrips is how often something was asked and answered.
func (c *Cutter) RoundTrips() int64 { return c.roundTrips.Load() }

// Close ends the cutter and every connection through it, and says how many answers it swallowed.
func (c *Cutter) Close() int {
	_ = c.listener.Close()
	c.mu.Lock()
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.wait.Wait()
	return c.cuts
}

func (c *Cutter) accept() {
	for {
		client, err := c.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			c.wait.Go(func() { c.serve(client) })
		}
	}
}

func (c *Cutter) serve(client net.Conn) {
	server, err := net.Dial("tcp", c.server)
	if err != nil {
		_ = client.Close()
		return
	}
	c.mu.Lock()
	c.conns[client], c.conns[server] = true, true
	c.mu.Unlock()
	defer func() {
		_ = client.Close()
		_ = server.Close()
		c.mu.Lock()
		delete(c.conns, client)
		delete(c.conns, server)
		c.mu.Unlock()
	}()
	cut := make(chan struct{})
	var asked atomic.Bool
	var answers sync.WaitGroup
	answers.Go(func() { c.answers(client, server, cut, &asked) })
	c.requests(client, server, cut, &asked)
	_ = server.Close()
	answers.Wait()
}

// requests carries what the client says. Before a COMMIT that is to be cut it closes the way back.
func (c *Cutter) requests(client, server net.Conn, cut chan<- struct{}, asked *atomic.Bool) {
	buf := make([]byte, 1<<16)
	for armed := c.share > 0; ; {
		n, err := client.Read(buf)
		asked.Store(n > 0)
		if armed && n > 0 && isCommit(buf[:n]) && c.chosen() {
			armed = false
			close(cut)
		}
		if _, werr := server.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// answers carries what the server says, until the way back is cut: then it waits for the server to
// have answered, so that the COMMIT is surely done, and hangs up.
func (c *Cutter) answers(client, server net.Conn, cut <-chan struct{}, asked *atomic.Bool) {
	buf := make([]byte, 1<<16)
	for {
		n, err := server.Read(buf)
		if asked.CompareAndSwap(true, false) {
			c.roundTrips.Add(1)
		}
		select {
		case <-cut:
			if tcp, ok := client.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0) // a reset, not a farewell
			}
			_ = client.Close()
			_, _ = io.Copy(io.Discard, server)
			return
		default:
		}
		if _, werr := client.Write(buf[:n]); err != nil || werr != nil {
			_ = client.Close()
			return
		}
	}
}

func (c *Cutter) chosen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.random.Float64() >= c.share {
		return false
	}
	c.cuts++
	return true
}

// isCommit recognises the statement, however the driver sends it.
func isCommit(packet []byte) bool {
	return bytes.Contains(bytes.ToLower(packet[:min(len(packet), 256)]), []byte("commit\x00"))
}
