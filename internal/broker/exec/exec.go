// Package exec hands each event to a command of the shell, one process each: a way to do without
// a broker, and without a service.
package exec

import (
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/callback"
	"github.com/outboxctl/outboxctl/internal/forward"
)

// The names of the settings.
const (
	setCommand  = "exec.command"
	setTimeout  = "exec.timeout"
	setParallel = "exec.parallel"
)

// Defaults of Config.
const (
	DefaultTimeout  = 30 * time.Second
	DefaultParallel = 4
)

// What exit codes of sysexits and of the shell say about more than one event.
const (
	exitNoPermission  = 77
	exitConfig        = 78
	exitNotExecutable = 126
	exitNotFound      = 127
)

// Kind is a command of one's own.
func Kind() broker.Kind {
	return broker.Kind{
		Name: "exec", Title: "a command", Limits: limits(), CheckName: callback.CheckName, Open: open, Needs: []string{setCommand},
		Takes: broker.DurationOf(setTimeout),
		Settings: []broker.Setting{
			{
				Name: setCommand, Kind: "command", Server: true, Flag: "exec", Commands: []string{"publish", "dev"}, Chooses: true,
				Help: "run this command of the shell for each event",
			},
			{Name: setTimeout, Kind: broker.KindDuration, Default: "30s", Help: "how long a command may take for one event"},
			{Name: setParallel, Kind: broker.KindNumber, Default: "4", Help: "commands of one topic running at once"},
		},
		Remedy: "check exec.command", Rights: "check exec.command",
	}
}

func open(_ context.Context, p broker.Params) (broker.Broker, error) {
	return New(Config{
		Command: p.Setting(setCommand), Timeout: p.Duration(setTimeout), Parallel: p.Number(setParallel), Output: p.Log,
	})
}

// Config is which command, and how.
type Config struct {
	// Command is one of the shell.
	Command string
	// Timeout bounds one command, Parallel is how many of a topic run at once.
	Timeout  time.Duration
	Parallel int
	// Output gets what commands print; nil: nobody.
	Output io.Writer
}

// Client hands events to a command.
type Client struct {
	callback.Base
	cfg Config
}

var _ broker.Broker = (*Client)(nil)

// New checks a configuration. It runs nothing.
func New(cfg Config) (*Client, error) {
	if cfg.Command == "" {
		return nil, errors.New("exec.command is empty")
	}
	cfg.Timeout, cfg.Parallel = cmp.Or(max(0, cfg.Timeout), DefaultTimeout), cmp.Or(max(0, cfg.Parallel), DefaultParallel)
	if cfg.Output == nil {
		cfg.Output = io.Discard
	}
	ready := func(context.Context, string) error { return nil } // whether a command works is known when it runs
	return &Client{cfg: cfg, Base: callback.Base{Ready: ready, Limits: limits()}}, nil
}

// String implements broker.Broker. The command may hold a password.
func (c *Client) String() string { return "the command of exec.command" }

// NewPublisher hands over the events of logical topics.
func (c *Client) NewPublisher(topics map[string]string) dispatch.Publisher {
	return c.Base.NewPublisher(topics, c.cfg.Parallel, c.cfg.Timeout, c.run)
}

// limits: Linux gives a process 128 KiB in one variable.
func limits() wire.Limits {
	return wire.Limits{
		MessageBytes: 64 << 20, Attributes: 100, AttributeNameBytes: 256, AttributeValueBytes: 4096, AttributesBytes: 64 << 10,
	}
}

// run hands one event to the command.
func (c *Client) run(ctx context.Context, physical string, m dispatch.Message) error {
	env := append(callback.Event(m).Env(), "OUTBOX_TOPIC="+physical)
	return verdict(forward.Run(ctx, c.cfg.Command, env, m.Data, c.cfg.Output))
}

// verdict is what the end of a command means for its event and the topic.
func verdict(err error) error {
	var exit *forward.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*forward.NULError)):
		return dispatch.NewFailure(dispatch.Refused, "nul", err)
	case errors.Is(err, context.DeadlineExceeded):
		return dispatch.NewFailure(dispatch.Retryable, "timeout", dispatch.Answered(err))
	case !errors.As(err, &exit):
		return dispatch.NewFailure(dispatch.Retryable, "not_run", err)
	}
	code := strconv.Itoa(exit.Code)
	switch exit.Code {
	case forward.ExitMalformed:
		return dispatch.NewFailure(dispatch.Refused, code, err)
	case exitNoPermission, exitConfig, exitNotExecutable, exitNotFound:
		return dispatch.NewFailure(dispatch.Misconfigured, code, err)
	default:
		return dispatch.NewFailure(dispatch.Retryable, code, dispatch.Answered(err))
	}
}
