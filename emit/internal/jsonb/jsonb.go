// Package jsonb reads JSON the way PostgreSQL stores it: it refuses what jsonb refuses,
// and knows how many bytes jsonb prints, before anything is sent there.
package jsonb

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/outboxctl/outboxctl/emit/internal/short"
)

// What PostgreSQL's jsonb refuses although it is JSON, or would be unwise to store.
const (
	// MaxDepth keeps well below the depth at which PostgreSQL's recursive
	// parser runs out of stack (thousands, depending on max_stack_depth).
	MaxDepth = 500
	// The range of numeric: digits before and after the decimal point.
	maxNumericWhole    = 131_072
	maxNumericFraction = 16_383
)

// Error reports where a JSON text is one that jsonb would not store.
type Error struct {
	Path    string
	Problem string
}

func (p *Error) Error() string { return p.Path + " " + p.Problem }

// under moves the problem below a member or element while the walk unwinds, so that
// a text without problems pays nothing for paths.
func (p *Error) under(parent string) *Error {
	p.Path = parent + p.Path
	return p
}

// from completes the path at the field where the walk began. Its middle is left out when it is
// long: an error's text is cut when it is stored, and what is wrong comes after where.
func (p *Error) from(field string) *Error {
	const most, half = 128, 60
	p = p.under(field)
	if n := len(p.Path); n > most {
		p.Path = strings.ToValidUTF8(p.Path[:half], "") + "…" + strings.ToValidUTF8(p.Path[n-half:], "")
	}
	return p
}

// Member is one name and value of an object.
type Member struct {
	Name  string
	Value []byte
}

// Bytes walks a member of the envelope and returns how many bytes it takes when PostgreSQL prints
// it as jsonb: with a space after each colon and comma, escapes resolved and numbers written out
// (1e6 takes seven bytes, 1e100000 a hundred thousand). That is the body the broker gets. The error
// is an *Error whose path starts at field.
func Bytes(text []byte, field string) (int, error) {
	s := scan{text: text, depth: 1} // the envelope is the first level
	if p := s.document(); p != nil {
		return 0, p.from(field)
	}
	return s.printed, nil
}

// Members splits an object into its members, after checking the whole text the
// way Bytes does. The error is an *Error.
func Members(text []byte, field string) ([]Member, error) {
	s := scan{text: text, keep: true, members: make([]Member, 0, 8)}
	if p := s.document(); p != nil {
		return nil, p.from(field)
	}
	if s.first != '{' {
		return nil, &Error{field, "must be an object, not " + Kind(s.first)}
	}
	return s.members, nil
}

// Kind names the type of the JSON value that starts with a byte.
func Kind(first byte) string {
	switch first {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// String reads a value that Members returned, if it is a string.
func String(value []byte) (string, bool) {
	if value[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), true
	}
	var s string
	err := json.Unmarshal(value, &s)
	return s, err == nil
}

// Elements walks over an array that Members returned.
func Elements(array []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		s := scan{text: array, pos: 1}
		for i := 0; ; i++ {
			s.space()
			start := s.pos
			if s.peek() == ']' || s.value() != nil || !yield(i, array[start:s.pos]) {
				return
			}
			if s.space(); s.peek() == ',' {
				s.pos++
			}
		}
	}
}

// scan is one walk over a text.
type scan struct {
	text    []byte
	pos     int
	printed int
	depth   int
	// names holds the member names of the objects that are open, innermost last.
	names [][]byte

	keep    bool
	first   byte
	members []Member
}

func (s *scan) document() *Error {
	s.names = make([][]byte, 0, 16)
	s.space()
	s.first = s.peek()
	if p := s.value(); p != nil {
		return p
	}
	s.space()
	if s.pos < len(s.text) {
		return &Error{Problem: "is not valid JSON: there is text after its end"}
	}
	return nil
}

func (s *scan) value() *Error {
	switch c := s.peek(); {
	case c == '{':
		return s.nested(s.object)
	case c == '[':
		return s.nested(s.array)
	case c == '"':
		_, p := s.str()
		return p
	case c == '-' || c >= '0' && c <= '9':
		return s.number()
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.text[s.pos:], []byte(word)) {
			s.pos += len(word)
			s.printed += len(word)
			return nil
		}
	}
	return s.malformed()
}

func (s *scan) nested(walk func() *Error) *Error {
	if s.depth++; s.depth > MaxDepth {
		return &Error{Problem: "is nested more than " + strconv.Itoa(MaxDepth) + " levels deep, the envelope counted"}
	}
	s.pos++
	s.printed += 2
	p := walk()
	s.depth--
	return p
}

// list walks what stands between commas up to the end of an array or an object.
func (s *scan) list(end byte, element func(i int) *Error) *Error {
	if s.space(); s.peek() == end {
		s.pos++
		return nil
	}
	for i := 0; ; i++ {
		s.space()
		if p := element(i); p != nil {
			return p
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
			s.printed += 2
		case end:
			s.pos++
			return nil
		default:
			return s.malformed()
		}
	}
}

func (s *scan) array() *Error {
	return s.list(']', func(i int) *Error {
		if p := s.value(); p != nil {
			return p.under("[" + strconv.Itoa(i) + "]")
		}
		return nil
	})
}

func (s *scan) object() *Error {
	mine := len(s.names)
	defer func() { s.names = s.names[:mine] }()
	var index map[string]struct{}
	return s.list('}', func(int) *Error {
		if s.peek() != '"' {
			return s.malformed()
		}
		name, p := s.str()
		if p != nil {
			return p
		}
		if repeated(s.names[mine:], &index, name) {
			// jsonb would silently keep only the last of them.
			return &Error{Path: "." + short.Name(string(name)), Problem: "appears twice in its object"}
		}
		s.names = append(s.names, name)
		s.space()
		if s.peek() != ':' {
			return s.malformed()
		}
		s.pos++
		s.printed += 2
		s.space()
		start := s.pos
		if p := s.value(); p != nil {
			return p.under("." + short.Name(string(name)))
		}
		if s.keep && s.depth == 1 {
			s.members = append(s.members, Member{string(name), s.text[start:s.pos]})
		}
		return nil
	})
}

// repeated reports whether name is among names. Objects with many members get an
// index, or a payload of a million names would take hours.
func repeated(names [][]byte, index *map[string]struct{}, name []byte) bool {
	const few = 32
	if len(names) < few {
		return slices.ContainsFunc(names, func(n []byte) bool { return bytes.Equal(n, name) })
	}
	if *index == nil {
		*index = make(map[string]struct{}, 2*few)
		for _, n := range names {
			(*index)[string(n)] = struct{}{}
		}
	}
	_, found := (*index)[string(name)]
	(*index)[string(name)] = struct{}{}
	return found
}

func (s *scan) space() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end, which no JSON token starts with.
func (s *scan) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

func (s *scan) malformed() *Error {
	return &Error{Problem: "is not valid JSON"}
}
