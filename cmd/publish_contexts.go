package cmd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/telemetry"
	"github.com/outboxctl/outboxctl/internal/wait"
)

const (
	// contextIdle closes connections that a quiet database of many does not use.
	contextIdle = time.Minute
	// They bound the wait before a context that could not be published is tried again.
	contextRetryMin, contextRetryMax = time.Second, 30 * time.Second
)

// contextPublisher publishes one context of several. What happens to it concerns no other.
type contextPublisher struct {
	name string
	opts *publishOptions
	// metrics and up are nil where nothing is measured.
	metrics prometheus.Registerer
	up      prometheus.Gauge

	mu      sync.Mutex
	service *publishService // nil: it does not run, because of why
	why     error
}

// publishContexts publishes several contexts side by side until ctx ends: each has a dispatcher of
// its own, and those with the same broker share its client.
func publishContexts(ctx context.Context, opts *publishOptions, names []string) error {
	opts.several, opts.idle = true, contextIdle
	app := opts.app
	outside := app.Outside()
	cfg, err := outside.Config() // of the process: its address and its log
	if err != nil {
		return err
	}
	// What is wrong in the configuration stays wrong, and is told before anything is opened.
	read := cli.InContexts(ctx, app, names, 1, func(_ context.Context, sub *cli.App) (*cli.Config, error) {
		return publishConfig(sub)
	})
	if err := cli.ReportContexts(app, read); err != nil {
		return err
	}
	limitMemory(len(names))
	app.ShareBrokers()
	server := newPublishServer(outside, cfg, opts.once)
	up := func(string) prometheus.Gauge { return nil }
	if server.metrics != nil {
		gauges := telemetry.NewContextUp(server.metrics)
		up = func(name string) prometheus.Gauge { return gauges.WithLabelValues(name) }
	}
	all := make([]*contextPublisher, len(names))
	for i, name := range names {
		all[i] = &contextPublisher{name: name, opts: opts, metrics: server.labelled(name), up: up(name),
			why: errors.New("it is being started")}
	}
	alive := httpd.Check{Name: "loop", Run: func(ctx context.Context) error { return aliveContexts(ctx, all) }}
	ready := func() (checks []httpd.Check) {
		for _, c := range all {
			checks = append(checks, c.checks()...)
		}
		return checks
	}
	return server.around(ctx, alive, ready, func(ctx context.Context) error {
		ran := make([]cli.Found[struct{}], len(all))
		var running sync.WaitGroup
		for i, c := range all {
			ran[i].Context = c.name
			running.Go(func() { ran[i].Err = c.run(ctx) })
		}
		running.Wait()
		return cli.ReportContexts(app, ran)
	})
}

// run publishes until ctx ends, or once. A context that cannot be published is tried again.
func (c *contextPublisher) run(ctx context.Context) error {
	pause := contextRetryMin
	for {
		began := time.Now()
		err := c.turn(ctx)
		if c.opts.once || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > contextRetryMax {
			pause = contextRetryMin
		}
		log := c.opts.app.Log()
		log.Warn().Str("context", c.name).Str("error", safetext.Redact(fmt.Sprint(fault.Database(err)))).
			Dur("again_in_ms", pause).Msg("this context is not published")
		if wait.For(ctx, pause/2+rand.N(pause/2)) != nil {
			return nil
		}
		pause = min(2*pause, contextRetryMax)
	}
}

// turn starts the context and publishes it until ctx ends or it fails.
func (c *contextPublisher) turn(ctx context.Context) (err error) {
	app := c.opts.app.InContext(c.name)
	defer func() {
		c.set(nil, err)
		err = errors.Join(err, app.Close())
	}()
	cfg, err := publishConfig(app)
	if err != nil {
		return err
	}
	if err := c.opts.checkTypes(ctx, app); err != nil {
		return err
	}
	service, err := newPublishService(ctx, c.opts, app, cfg, c.metrics)
	if err != nil {
		return err
	}
	c.set(service, nil)
	return service.Run(ctx)
}

func (c *contextPublisher) set(service *publishService, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.service, c.why = service, why
	if c.up != nil {
		c.up.Set(either(service != nil, 1.0, 0))
	}
}

func (c *contextPublisher) get() (*publishService, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.service, c.why
}

// checks is what must hold for the context to be published.
func (c *contextPublisher) checks() []httpd.Check {
	service, why := c.get()
	if service == nil {
		return []httpd.Check{{Group: c.name, Name: "start", Run: func(context.Context) error { return why }}}
	}
	return service.checks(c.name)
}

// aliveContexts names the contexts whose loop hangs.
func aliveContexts(ctx context.Context, all []*contextPublisher) error {
	var hang []string
	for _, c := range all {
		if service, _ := c.get(); service != nil {
			if err := service.Alive(ctx); err != nil {
				hang = append(hang, fmt.Sprintf("%s: %v", c.name, err))
			}
		}
	}
	if len(hang) > 0 {
		return errors.New(strings.Join(hang, "; "))
	}
	return nil
}
