package devstack

import (
	"fmt"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// portAttempts bounds how often a start is tried again because the port was taken between our look
// and the server's bind.
const portAttempts = 5

// portChoice is how a server gets its port. Looking for a free one and binding it are two steps,
// and another process may take it in between, so every attempt chooses again until the server has
// bound a port; from then on it keeps it over restarts.
type portChoice struct {
	wanted int  // 0: any
	any    bool // another one will do when the wanted one is taken
	bound  int  // 0 until the server runs
}

// next returns the port to try, starting with attempt 1.
func (c *portChoice) next(attempt int) (int, error) {
	switch {
	case c.bound != 0:
		return c.bound, nil
	case c.wanted != 0 && (attempt == 1 || !c.any):
		return c.wanted, nil
	default:
		return FreePort()
	}
}

// again reports whether a start that met a taken port is worth another attempt.
func (c *portChoice) again(attempt int) bool {
	return c.bound == 0 && (c.wanted == 0 || c.any) && attempt < portAttempts
}

// keep remembers the port. It is written once, before other goroutines read it.
func (c *portChoice) keep(port int) {
	if c.bound == 0 {
		c.bound = port
	}
}

// FreePort returns a port of the loopback interface that is free at the moment.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
