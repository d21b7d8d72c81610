package stack

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// memoryRedis runs in this process.
type memoryRedis struct {
	wantedPort int
	boundPort  int
	server     *miniredis.Miniredis // nil while stopped
}

func (m *memoryRedis) start(context.Context) error {
	port := m.boundPort
	if port == 0 {
		port = m.wantedPort
	}
	server := miniredis.NewMiniRedis()
	// Without it a TTL never runs out.
	server.ClockTTL(true)
	if err := server.StartAddr(address(port)); err != nil {
		return fmt.Errorf("start the in-process Redis: %w", err)
	}
	m.server = server
	if m.boundPort == 0 {
		m.boundPort = server.Server().Addr().Port
	}
	return nil
}

func (m *memoryRedis) stop(context.Context) error {
	if m.server != nil {
		m.server.Close()
		m.server = nil
	}
	return nil
}

func (m *memoryRedis) pause() error  { return errNoPause }
func (m *memoryRedis) resume() error { return errNoPause }
func (m *memoryRedis) port() int     { return m.boundPort }

func (m *memoryRedis) done() <-chan struct{} { return nil }
