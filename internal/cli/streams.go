package cli

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// Streams are a command's way to the outside: data goes to Out, talk to Err.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer

	InTTY  bool
	OutTTY bool
	ErrTTY bool

	// Width is the terminal's width in cells; zero when Out is no terminal.
	Width int
}

// OSStreams are the process's own streams.
func OSStreams() Streams {
	s := Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY:  term.IsTerminal(int(os.Stdin.Fd())),
		OutTTY: term.IsTerminal(int(os.Stdout.Fd())),
		ErrTTY: term.IsTerminal(int(os.Stderr.Fd())),
	}
	if s.OutTTY {
		if width, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			s.Width = width
		}
	}
	return s
}

// SurviveClosedPipe lets a write to a pipe whose reader has gone (| head) fail, where it would kill the process unheard,
// until the function it returns is called. A change half done has to say how far it came.
func SurviveClosedPipe() (restore func()) {
	signal.Ignore(syscall.SIGPIPE)
	return func() { signal.Reset(syscall.SIGPIPE) }
}

// Style is the colour of a text on a terminal; a pipe and NO_COLOR get none.
type Style string

const (
	StyleError Style = "1;31"
	styleHint  Style = "36"
	StyleWarn  Style = "33"
	StyleGood  Style = "32"
	StyleFaint Style = "2"
	styleBold  Style = "1"
)

// Paint wraps text in a style when the stream is a terminal that wants colour.
func (a *App) Paint(tty bool, s Style, text string) string {
	if !tty || s == "" || a.noColor() {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

func (a *App) noColor() bool {
	return a.env["NO_COLOR"] != "" || a.env["TERM"] == "dumb"
}
