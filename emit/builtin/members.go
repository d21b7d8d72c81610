package builtin

import (
	"bytes"
	"encoding/json"
)

// member is one name and value of a JSON object.
type member struct {
	name  string
	value json.RawMessage
	taken bool
}

// object splits a JSON object into its members, or says why data is none.
//
// It is done by hand on text that json.Valid has accepted: encoding/json matches
// struct fields without regard to case, and a map of raw values costs several
// times as much, on the path that every published event takes.
func object(data json.RawMessage) (members []member, problem string) {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return nil, "is required"
	case string(data) == "null":
		return nil, "must not be null; an event without data carries {}"
	case !json.Valid(data):
		return nil, "is not valid JSON"
	case data[0] != '{':
		return nil, "must be an object, not " + kindOf(data)
	}
	rest := skipSpace(data[1:])
	for rest[0] != '}' {
		end := valueEnd(rest)
		name := unquote(rest[:end])
		rest = skipSpace(rest[end:])
		rest = skipSpace(rest[1:]) // the colon
		end = valueEnd(rest)
		members = append(members, member{name: name, value: rest[:end]})
		rest = skipSpace(rest[end:])
		if rest[0] == ',' {
			rest = skipSpace(rest[1:])
		}
	}
	return members, ""
}

// valueEnd returns where the JSON value at the start of valid text ends.
func valueEnd(text []byte) int {
	switch text[0] {
	case '"':
		return stringEnd(text)
	case '{', '[':
		depth := 0
		for i := 0; ; i++ {
			switch text[i] {
			case '"':
				i += stringEnd(text[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	default:
		if end := bytes.IndexAny(text, ",]} \t\r\n"); end >= 0 {
			return end
		}
		return len(text)
	}
}

func stringEnd(text []byte) int {
	for i := 1; ; i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
}

func skipSpace(text []byte) []byte {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\n' || text[0] == '\t' || text[0] == '\r') {
		text = text[1:]
	}
	return text
}

// unquote reads a valid JSON string.
func unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return string(raw)
	}
	return s
}
