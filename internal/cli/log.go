package cli

import (
	"io"
	"time"

	"github.com/rs/zerolog"

	"github.com/outboxctl/outboxctl/internal/safetext"
)

// Log is the structured log on Err: JSON, or for people when Err is a terminal and no format was
// chosen.
func (a *App) Log() zerolog.Logger {
	level, format := zerolog.InfoLevel, "json"
	if a.cfg != nil {
		if chosen, err := zerolog.ParseLevel(a.cfg.Log.Level); err == nil {
			level = chosen
		}
		format = a.cfg.Log.Format
		if a.ErrTTY && a.cfg.Origin("log.format") == OriginDefault {
			format = "console"
		}
	}
	if format == "console" {
		w := zerolog.ConsoleWriter{Out: a.Err, TimeFormat: "15:04:05.000", NoColor: !a.colored(a.ErrTTY)}
		return zerolog.New(w).Level(level).Hook(zerolog.HookFunc(stamp))
	}
	return zerolog.New(escapedJSON{a.Err}).Level(level).Hook(zerolog.HookFunc(stamp))
}

// escapedJSON writes JSON lines in which a terminal finds nothing to act on: zerolog escapes C0
// controls only, and texts of brokers and databases are in its lines.
type escapedJSON struct{ out io.Writer }

func (w escapedJSON) Write(line []byte) (int, error) {
	if _, err := w.out.Write(safetext.JSON(line)); err != nil {
		return 0, err
	}
	return len(line), nil
}

// stamp dates a line to the millisecond, which zerolog only does for all of a program.
func stamp(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().Format("2006-01-02T15:04:05.000Z07:00"))
}
