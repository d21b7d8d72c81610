package httpd

import (
	"fmt"
	"strings"
)

// ParseBasePath reads the prefix of a page's addresses and returns it without the slash at its end.
func ParseBasePath(raw string) (string, error) {
	base := strings.TrimRight(raw, "/")
	if base != "" && (!strings.HasPrefix(base, "/") || strings.ContainsAny(base, "{}?#%")) {
		return "", fmt.Errorf("%q is not a path such as /ops/outbox", raw)
	}
	return base, nil
}
