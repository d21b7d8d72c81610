// Package zlog lets what logs with log/slog write to a logger of zerolog.
package zlog

import (
	"context"
	"log/slog"
	"time"

	"github.com/rs/zerolog"
)

// Slog writes to a logger of zerolog, which has the time already.
func Slog(log zerolog.Logger) *slog.Logger { return slog.New(untimed{zerolog.NewSlogHandler(log)}) }

type untimed struct{ slog.Handler }

func (u untimed) Handle(ctx context.Context, r slog.Record) error {
	r.Time = time.Time{}
	return u.Handler.Handle(ctx, r)
}

func (u untimed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return untimed{u.Handler.WithAttrs(attrs)}
}

func (u untimed) WithGroup(name string) slog.Handler { return untimed{u.Handler.WithGroup(name)} }
