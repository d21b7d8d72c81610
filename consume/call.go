package consume

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// callsTogether bounds what one round trip asks of Redis, which answers no other client meanwhile.
	callsTogether = 128
	// callLanes are the round trips of a guard at the same time. More of them are smaller ones.
	callLanes = 2
)

// call is one script run on one key.
type call struct {
	until  time.Time // no caller waits longer
	script *redis.Script
	key    string
	args   []any
	cmd    *redis.Cmd
	done   chan struct{} // closed when cmd has its answer
}

// run runs the script, in one round trip with what other deliveries ask at the same time. Once it
// has asked it waits for the answer even if ctx is cancelled, or a lease that was just granted
// would stay behind.
func (g *Guard) run(ctx context.Context, script *redis.Script, key string, args ...any) *redis.Cmd {
	if ctx.Err() != nil {
		return failedCmd(ctx, context.Cause(ctx))
	}
	c := &call{until: time.Now().Add(g.timeout), script: script, key: key, args: args, done: make(chan struct{})}
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(c.until) {
		c.until = deadline
	}
	patience := time.NewTimer(time.Until(c.until))
	defer patience.Stop()
	g.calls.add(c)
	select {
	case <-c.done:
		return c.cmd
	case <-patience.C:
		return failedCmd(ctx, context.DeadlineExceeded)
	}
}

func failedCmd(ctx context.Context, err error) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(err)
	return cmd
}

// runAll asks for all calls in one round trip, and in a second for those whose script the server
// did not have.
func (s server) runAll(calls []*call) {
	ctx, cancel := s.bound(context.Background())
	defer cancel()
	waited := calls[:0:0]
	for _, c := range calls {
		if time.Now().Before(c.until) {
			waited = append(waited, c)
		}
	}
	s.pipeline(ctx, waited, (*redis.Script).EvalSha)
	var unknown []*call
	for _, c := range waited {
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	s.pipeline(ctx, unknown, (*redis.Script).Eval)
	for _, c := range waited {
		close(c.done)
	}
}

type evalFunc func(*redis.Script, context.Context, redis.Scripter, []string, ...any) *redis.Cmd

func (s server) pipeline(ctx context.Context, calls []*call, eval evalFunc) {
	if len(calls) == 0 {
		return
	}
	pipe := s.rdb.Pipeline()
	for _, c := range calls {
		c.cmd = eval(c.script, ctx, pipe, []string{c.key}, c.args...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
}
