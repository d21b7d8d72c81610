package catalogue

import (
	"fmt"
	"strings"
)

// Problem is one thing that is wrong with a catalogue.
type Problem struct {
	// File and Line say where; Line is 0 where there is none.
	File string
	Line int
	Text string
}

func (p Problem) String() string { return place{p.File, p.Line}.String() + p.Text }

// Problems are all things that are wrong with a catalogue.
type Problems struct{ All []Problem }

func (p *Problems) Error() string {
	texts := make([]string, len(p.All))
	for i, one := range p.All {
		texts[i] = one.String()
	}
	return strings.Join(texts, "\n")
}

func (p *Problems) add(at place, format string, args ...any) {
	p.All = append(p.All, Problem{at.file, at.line, fmt.Sprintf(format, args...)})
}

func (p *Problems) orNil() error {
	if len(p.All) == 0 {
		return nil
	}
	return p
}

// place is a line of a file.
type place struct {
	file string
	line int
}

func (p place) String() string {
	switch {
	case p.file == "":
		return ""
	case p.line == 0:
		return p.file + ": "
	}
	return fmt.Sprintf("%s:%d: ", p.file, p.line)
}
