package cli

import (
	"strconv"

	"github.com/outboxctl/outboxctl/internal/words"
)

// RateFlag is a number of rows per second: 200, 200/s, 30/m.
type RateFlag float64

// Type implements pflag.Value.
func (f *RateFlag) Type() string { return "rate" }

func (f *RateFlag) String() string {
	if *f == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(*f), 'g', -1, 64) + "/s"
}

// Set implements pflag.Value.
func (f *RateFlag) Set(text string) (err error) {
	*(*float64)(f), err = words.ParseRate(text)
	return err
}

// ShareFlag is a share: 5% or 0.05.
type ShareFlag struct {
	Share float64
	Given bool
}

// Type implements pflag.Value.
func (f *ShareFlag) Type() string { return "percent" }

func (f *ShareFlag) String() string {
	return strconv.FormatFloat(f.Share*100, 'g', -1, 64) + "%"
}

// Set implements pflag.Value.
func (f *ShareFlag) Set(text string) (err error) {
	f.Given = true
	f.Share, err = words.ParseShare(text)
	return err
}
