package cmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/ui"
)

// uiCheckTimeout bounds the look at the read role: the page starts also while the database is away.
const uiCheckTimeout = 2 * time.Second

// checkReadRole refuses a role that the page could not read under. A database that does not answer
// is no reason: the page says so itself, and so it does where the default role has no rights.
func checkReadRole(ctx context.Context, pool *pgxpool.Pool, role string) error {
	if role == ui.OwnRights {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, uiCheckTimeout)
	defer cancel()
	err := pgread.CheckRole(ctx, pool, role)
	if isUIProblem(err) && (role != ui.DefaultReadRole || !errors.Is(err, pgread.ErrNoRights)) {
		return err
	}
	return nil
}

// isUIProblem reports whether err is about how the page was set up: another start would end the
// same way.
func isUIProblem(err error) bool {
	kind, _ := fault.KindOf(err)
	return kind == fault.Usage || kind == fault.Precondition
}

// serveUIProblem answers every request with 503 until ctx ends. What is missing is for those who
// read the log.
func serveUIProblem(ctx context.Context, app *cli.App, problem error) error {
	app.Report(problem)
	cfg := &cli.Config{}
	for _, v := range app.Settings() {
		if v.Key.Name == "ui.addr" {
			cfg.UI.Addr = v.Raw
		}
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cfg.UI.Addr)
	if err != nil {
		return problem
	}
	fmt.Fprintf(app.Err, "answering 503 on %s\n", listener.Addr())
	return serveUI(ctx, cfg, listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if r.URL.Path != "/healthz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte("this page is not set up: its log says what is missing\n")) // the caller has gone
	}))
}
