package jsonb

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str walks a string and returns its text.
func (s *scan) str() ([]byte, *Error) {
	s.pos++
	s.printed += 2
	start := s.pos
	var resolved []byte // only when there are escapes
	for {
		n := plain(s.text[s.pos:])
		if resolved != nil {
			resolved = append(resolved, s.text[s.pos:s.pos+n]...)
		}
		s.pos += n
		s.printed += n
		if s.pos == len(s.text) {
			return nil, s.malformed()
		}
		c := s.text[s.pos]
		switch {
		case c == '"':
			s.pos++
			if resolved != nil {
				return resolved, nil
			}
			return s.text[start : s.pos-1], nil
		case c < ' ':
			return nil, s.malformed()
		case c == '\\':
			if resolved == nil {
				resolved = append(make([]byte, 0, s.pos-start+16), s.text[start:s.pos]...)
			}
			r, p := s.escape()
			if p != nil {
				return nil, p
			}
			resolved = utf8.AppendRune(resolved, r)
			s.printed += printedRune(r)
		default:
			_, n := utf8.DecodeRune(s.text[s.pos:])
			if n == 1 {
				return nil, &Error{Problem: "is not valid UTF-8"}
			}
			if resolved != nil {
				resolved = append(resolved, s.text[s.pos:s.pos+n]...)
			}
			s.pos += n
			s.printed += n
		}
	}
}

// plain is how many bytes text begins with that stand for themselves in a string: ASCII, and neither a
// control character nor a quote or a backslash. Most of what a publisher reads is such bytes, and it
// reads all of it twice, so they are looked at in eights. Of eight bytes in one number, each expression
// marks those with a property by their highest bit; a wrong mark can only stand behind a right one.
func plain(text []byte) (n int) {
	const each, high = 0x0101010101010101, 0x8080808080808080
	is := func(bytes, c uint64) uint64 {
		bytes ^= c * each
		return (bytes - each) &^ bytes
	}
	for ; len(text)-n >= 8; n += 8 {
		eight := binary.LittleEndian.Uint64(text[n:])
		marks := (eight | (eight-' '*each)&^eight | is(eight, '"') | is(eight, '\\')) & high
		if marks != 0 {
			return n + bits.TrailingZeros64(marks)/8
		}
	}
	for ; n < len(text); n++ {
		if c := text[n]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return n
}

// escape walks one backslash sequence, or the two of a surrogate pair.
func (s *scan) escape() (rune, *Error) {
	s.pos++
	c := s.peek()
	s.pos++
	const escapes, meant = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	if i := strings.IndexByte(escapes, c); i >= 0 {
		return rune(meant[i]), nil
	}
	if c != 'u' {
		return 0, s.malformed()
	}
	r, ok := s.hex4()
	if !ok {
		return 0, s.malformed()
	}
	if r == 0 {
		return 0, &Error{Problem: `holds \u0000, which PostgreSQL cannot store`}
	}
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if bytes.HasPrefix(s.text[s.pos:], []byte(`\u`)) {
		s.pos += 2
		if low, ok := s.hex4(); ok {
			if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
				return pair, nil
			}
		}
	}
	return 0, &Error{Problem: "holds half of a surrogate pair, which PostgreSQL cannot store"}
}

func (s *scan) hex4() (rune, bool) {
	if len(s.text)-s.pos < 4 {
		return 0, false
	}
	digits := s.text[s.pos : s.pos+4]
	n, err := strconv.ParseUint(string(digits), 16, 16)
	if err != nil || digits[0] == '+' || digits[0] == '-' {
		return 0, false
	}
	s.pos += 4
	return rune(n), true
}

// printedRune is the width of a rune that was written as an escape.
func printedRune(r rune) int {
	switch {
	case strings.ContainsRune("\"\\\b\f\n\r\t", r):
		return 2
	case r < ' ':
		return 6
	default:
		return utf8.RuneLen(r)
	}
}
