package catalogue

import (
	"encoding/json"
	"strconv"
	"strings"
)

// maxDigits is how many digits a number may have, written out, where a schema looks at it. A double has at most some
// 800. Rules about numbers calculate exactly, and what that takes grows faster than the number: a message full of
// numbers of 100,000 digits would keep an emitter or a publisher busy for a minute.
const maxDigits = 1024

// longNumber finds a number of too many digits and returns where it is, below the value.
func longNumber(value any) (path string, found bool) {
	switch v := value.(type) {
	case json.Number:
		return "", digits(string(v)) > maxDigits
	case []any:
		for i, element := range v {
			if below, found := longNumber(element); found {
				return "[" + strconv.Itoa(i) + "]" + below, true
			}
		}
	case map[string]any:
		for name, member := range v {
			if below, ok := longNumber(member); ok {
				if at := "." + cut(name) + below; !found || at < path {
					path, found = at, true
				}
			}
		}
	}
	return path, found
}

// digits is at least as many as a number has when its exponent is written out.
func digits(number string) int {
	e := strings.IndexAny(number, "eE")
	if e < 0 {
		return len(number)
	}
	exponent, err := strconv.Atoi(number[e+1:])
	if err != nil || exponent > maxDigits || exponent < -maxDigits {
		return maxDigits + 1
	}
	return len(number) + max(exponent, -exponent)
}
