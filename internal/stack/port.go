package stack

import (
	"fmt"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// portAttempts bounds how often a start is tried again because somebody took the free port between our look and the server's bind.
const portAttempts = 5

// FreeOr returns port when nobody listens on it and 0 (any free port) otherwise.
func FreeOr(port int) int {
	listener, err := net.Listen("tcp", address(port))
	if err != nil {
		return 0
	}
	_ = listener.Close()
	return port
}

func freePort() (int, error) {
	listener, err := net.Listen("tcp", address(0))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
