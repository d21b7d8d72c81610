package jsonb

import (
	"strconv"
	"strings"
)

// number walks a JSON number and counts its digits as numeric prints them.
func (s *scan) number() *Error {
	negative := s.peek() == '-'
	if negative {
		s.pos++
	}
	whole := s.digits()
	if whole == "" || len(whole) > 1 && whole[0] == '0' {
		return s.malformed()
	}
	var fraction string
	if s.peek() == '.' {
		s.pos++
		if fraction = s.digits(); fraction == "" {
			return s.malformed()
		}
	}
	exponent := 0
	if c := s.peek(); c == 'e' || c == 'E' {
		s.pos++
		sign := 1
		switch s.peek() {
		case '-':
			sign = -1
			s.pos++
		case '+':
			s.pos++
		}
		digits := s.digits()
		if digits == "" {
			return s.malformed()
		}
		// Beyond a million its exact value does not matter: PostgreSQL refuses the number.
		size, _ := strconv.Atoi(digits)
		exponent = sign * min(size, 9_999_999)
	}

	// The value is 0.d1d2d3… × 10^point once leading zeros are gone.
	zeros := len(whole+fraction) - len(strings.TrimLeft(whole+fraction, "0"))
	wholeDigits, isZero := len(whole)+exponent-zeros, zeros == len(whole)+len(fraction)
	scale := max(0, len(fraction)-exponent)
	if scale > maxNumericFraction || !isZero && wholeDigits > maxNumericWhole {
		return &Error{Problem: "is a number outside the range of PostgreSQL's numeric"}
	}
	if isZero {
		wholeDigits = 1
	}
	s.printed += max(1, wholeDigits)
	if scale > 0 {
		s.printed += 1 + scale
	}
	if negative && !isZero {
		s.printed++
	}
	return nil
}

func (s *scan) digits() string {
	start := s.pos
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.pos++
	}
	return string(s.text[start:s.pos])
}
