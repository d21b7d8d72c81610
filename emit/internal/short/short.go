// Package short keeps text that another program chose from filling a message.
package short

import "strings"

// Name shortens a name to 64 bytes.
func Name(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
