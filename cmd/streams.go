package cmd

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

// surviveClosedPipe lets a write to a pipe whose reader has gone (| head) fail, where it would kill the process unheard,
// until the function it returns is called. A change half done has to say how far it came.
func surviveClosedPipe() (restore func()) {
	signal.Ignore(syscall.SIGPIPE)
	return func() { signal.Reset(syscall.SIGPIPE) }
}

// The colours a terminal gets; a pipe and NO_COLOR get none.
type style string

const (
	styleError style = "1;31"
	styleHint  style = "36"
	styleWarn  style = "33"
	styleGood  style = "32"
	styleFaint style = "2"
	styleBold  style = "1"
)

// paint wraps text in a style when the stream is a terminal that wants colour.
func (a *App) paint(tty bool, s style, text string) string {
	if !tty || s == "" || a.noColor() {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

func (a *App) noColor() bool {
	return a.env["NO_COLOR"] != "" || a.env["TERM"] == "dumb"
}
