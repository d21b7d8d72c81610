package check

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// sameJSON compares two documents by what they mean: the order of members does not matter and 1e2
// is 100, but no digit of a number is lost to a float.
func sameJSON(a, b []byte) bool {
	left, err := decode(a)
	if err != nil {
		return false
	}
	right, err := decode(b)
	return err == nil && sameValue(left, right)
}

func decode(text []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return value, dec.Decode(&value)
}

func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			if other, ok := b[name]; !ok || !sameValue(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !sameValue(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && (a == b || decimal(a) == decimal(b))
	default:
		return a == b
	}
}

// decimal brings a number to one form: its significant digits and the power of ten of the last one.
func decimal(n json.Number) string {
	text, negative := strings.CutPrefix(strings.ToLower(n.String()), "-")
	mantissa, power, _ := strings.Cut(text, "e")
	exponent, _ := strconv.Atoi(power)
	whole, fraction, _ := strings.Cut(mantissa, ".")
	exponent -= len(fraction)
	digits := strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(short)
	if short == "" {
		return "0"
	}
	if negative {
		short = "-" + short
	}
	return short + "e" + strconv.Itoa(exponent)
}
