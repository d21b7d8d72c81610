package devstack

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
)

// memoryRedis runs in this process.
type memoryRedis struct {
	choice   portChoice
	password string
	server   *miniredis.Miniredis // nil while stopped
}

func (m *memoryRedis) start(context.Context) error {
	for attempt := 1; ; attempt++ {
		port, err := m.choice.next(attempt)
		if err != nil {
			return err
		}
		server := miniredis.NewMiniRedis()
		// Without it a TTL never runs out.
		server.ClockTTL(true)
		server.RequireAuth(m.password)
		if err = server.StartAddr(address(port)); err == nil {
			m.server = server
			m.choice.keep(port)
			return nil
		}
		if !m.choice.again(attempt) {
			return fmt.Errorf("start the in-process Redis: %w", err)
		}
	}
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
func (m *memoryRedis) port() int     { return m.choice.bound }

func (m *memoryRedis) done() <-chan struct{} { return nil }
