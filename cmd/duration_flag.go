package cmd

import (
	"errors"
	"time"
)

// durationFlag is an optional duration in the units people use for retention: 30d, 2w, 12h.
type durationFlag struct{ value *time.Duration }

func (f *durationFlag) Type() string { return "duration" }

func (f *durationFlag) String() string {
	if f.value == nil {
		return ""
	}
	return f.value.String()
}

func (f *durationFlag) Set(text string) error {
	d, err := parseDuration(text)
	if err != nil {
		return err
	}
	if d < 0 {
		return errors.New("must not be negative")
	}
	f.value = &d
	return nil
}
