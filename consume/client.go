package consume

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Time-outs of NewClient's connections. With the library's own, a server that
// is down costs 1.7 s per command and a black hole 5 s, while every message
// waiting behind it keeps its ack deadline running.
const (
	dialTimeout = time.Second
	ioTimeout   = time.Second
)

// NewClient opens a client for url (redis://, rediss:// or unix://) that fails
// fast when the server is away. It dials nothing yet.
//
// The library logs connection trouble to stderr through a process-wide logger; NewClient replaces
// it with silence, because every such error also comes back from the call that met it.
func NewClient(rawURL string) (*redis.Client, error) {
	opt, err := redis.ParseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("parse redis url: %w", withoutURL(err))
	}
	opt.ContextTimeoutEnabled = true // or a 300 ms context waits for the socket's time-out
	opt.DialTimeout = dialTimeout
	opt.ReadTimeout = ioTimeout
	opt.WriteTimeout = ioTimeout
	opt.PoolTimeout = 2 * ioTimeout
	opt.DialerRetries = 1
	// One retry covers the idle connection that a restarted server closed. It is
	// safe: the scripts recognise a call of theirs that got through before.
	opt.MaxRetries = 1
	opt.MinRetryBackoff = 5 * time.Millisecond
	opt.MaxRetryBackoff = 20 * time.Millisecond
	// With the newer protocol the client looks for pushed notices before each answer, and scripts get
	// none.
	opt.Protocol = 2
	// Fewer commands per new connection, and none that an old server refuses.
	opt.DisableIdentity = true
	opt.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	redis.SetLogger(silence{})
	return redis.NewClient(opt), nil
}

// withoutURL strips the URL, which may carry a password, from a parse error.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
