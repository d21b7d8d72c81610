package safetext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Line returns s as one line that no terminal interprets: control characters, line breaks included,
// become visible (ESC is shown as ^[, U+009B as <U+009B>), and so do bidirectional controls and
// broken UTF-8.
func Line(s string) string {
	return show(s, func(r rune) bool { return false })
}

// FirstLine is the first line of a text that has something on it.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

// Block is Line for text of several lines: line feeds and tabs stay.
func Block(s string) string {
	return show(s, func(r rune) bool { return r == '\n' || r == '\t' })
}

// JSON escapes in an encoded JSON document what encoding/json leaves as it is although a terminal
// acts on it. The document keeps its meaning, because these characters can stand only inside
// strings.
func JSON(doc []byte) []byte {
	if !strings.ContainsFunc(string(doc), dangerous) {
		return doc
	}
	var b strings.Builder
	b.Grow(len(doc) + 16)
	for _, r := range string(doc) {
		if r < ' ' || !dangerous(r) {
			b.WriteRune(r)
			continue
		}
		// Beyond the first plane an escape is a pair, or it means another character.
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return []byte(b.String())
}

func show(s string, keep func(rune) bool) string {
	clean := utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return dangerous(r) && !keep(r) })
	if clean {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteRune(utf8.RuneError)
		case keep(r) || !dangerous(r):
			b.WriteRune(r)
		case r < ' ':
			b.WriteByte('^')
			b.WriteByte(byte(r) + '@')
		default:
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
		s = s[size:]
	}
	return b.String()
}

// dangerous reports whether a terminal acts on a character instead of showing it: C0, DEL and C1
// controls, the characters that reorder or hide their neighbours, and the line separators.
func dangerous(r rune) bool {
	switch {
	case unicode.IsControl(r):
		return true
	case r == 0x061C, // Arabic letter mark
		r >= 0x200B && r <= 0x200F,   // zero width space and joiners, direction marks
		r >= 0x2028 && r <= 0x202E,   // line separators, embeddings and overrides
		r >= 0x2060 && r <= 0x206F,   // word joiner, isolates, deprecated format controls
		r == 0xFEFF,                  // byte order mark
		r >= 0xE0000 && r <= 0xE007F: // tags: invisible copies of ASCII
		return true
	}
	return false
}
