package short

import "strings"

// Name keeps a name somebody else chose from flooding a message.
func Name(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
