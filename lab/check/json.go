package check

import (
	"bytes"
	"encoding/json"
	"reflect"
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
	return err == nil && reflect.DeepEqual(left, right)
}

// decode reads a document with all numbers in one form.
func decode(text []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&value)
	return normal(value), err
}

func normal(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = normal(v[name])
		}
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case json.Number:
		return decimal(v)
	}
	return value
}

// decimal brings a number to one form: its significant digits and the power of ten of the last one.
func decimal(n json.Number) json.Number {
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
	return json.Number(short + "e" + strconv.Itoa(exponent))
}
