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

	// Width and Height are the terminal's, in cells; zero when Out is no terminal.
	Width  int
	Height int
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
		if width, height, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
			s.Width, s.Height = width, height
		}
	}
	return s
}

// SurviveClosedPipe lets a write to a pipe whose reader has gone (| head) fail, where it would kill
// the process unheard, until the function it returns is called. A change half done has to say how
// far it came.
func SurviveClosedPipe() (restore func()) {
	signal.Ignore(syscall.SIGPIPE)
	return func() { signal.Reset(syscall.SIGPIPE) }
}

// Style is the colour of a text on a terminal.
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
	if s == "" || !a.colored(tty) {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// The values of --color.
const (
	ColorAuto   = "auto"
	ColorAlways = "always"
	ColorNever  = "never"
)

// colored reports whether a stream gets colour: by --color, else by NO_COLOR and CLICOLOR_FORCE,
// else when it is a terminal that has any.
func (a *App) colored(tty bool) bool {
	force := a.env["CLICOLOR_FORCE"]
	switch choice, _ := a.Flag("color"); {
	case choice == ColorAlways:
		return true
	case choice == ColorNever || a.env["NO_COLOR"] != "":
		return false
	case force != "" && force != "0":
		return true
	default:
		return tty && a.env["TERM"] != "dumb"
	}
}
