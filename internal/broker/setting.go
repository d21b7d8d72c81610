package broker

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/words"
)

// Setting is one value that a broker can be told: its words, its default and where else it may
// come from. The command line makes flags, environment variables and documentation of it.
type Setting struct {
	// Name is the whole name, which begins with the Kind's and a dot.
	Name, Help string
	// Kind is what help calls the value. KindBool, KindNumber and KindDuration are checked.
	Kind    string
	Default string
	// Secret: config view and the page hide it. Such a setting has one beside it whose name ends
	// in _file, see Params.Secret.
	Secret bool
	// Server: it says which installation is meant. Inside a context it has no default and comes
	// from the context or a flag alone.
	Server bool
	// Flag is the name of a flag; empty: none. Commands have it, or all where there are none.
	Flag     string
	Commands []string
	// Chooses: its flag also chooses this broker.
	Chooses bool
	// Env are other variables that it is read from, beside OUTBOXCTL_ and its name.
	Env []string
	// Check refuses a value; it may be nil.
	Check func(value string) error
}

// SubscriptionSetting is that of the subscription that consume reads from.
func SubscriptionSetting(name, help, standard string, check func(kind, name string) error) Setting {
	return Setting{
		Name: name, Help: help, Kind: "name", Default: standard, Flag: "subscription", Commands: []string{"consume", "topic"},
		Check: func(raw string) error { return check(KindSubscription, raw) },
	}
}

// The kinds of settings whose values are checked.
const (
	KindBool     = "bool"
	KindNumber   = "n"
	KindDuration = "duration"
)

// Validate refuses a value that is not of the setting's kind, or that its Check refuses.
func (s Setting) Validate(value string) error {
	var err error
	switch s.Kind {
	case KindBool:
		if _, err = strconv.ParseBool(value); err != nil {
			err = fmt.Errorf("%q is neither true nor false", value)
		}
	case KindNumber:
		if n, bad := strconv.Atoi(value); bad != nil || n < 1 {
			err = fmt.Errorf("%q is not a whole number above 0", value)
		}
	case KindDuration:
		var d time.Duration
		if d, err = words.ParseDuration(value); err == nil && d <= 0 {
			err = fmt.Errorf("%s is not a time to wait", value)
		}
	}
	if err == nil && s.Check != nil {
		err = s.Check(value)
	}
	return err
}

// Number reads a setting of KindNumber. It was validated; without a value it is zero, as with
// Duration and Bool.
func (p Params) Number(name string) int {
	n, _ := strconv.Atoi(p.Setting(name))
	return n
}

// Duration reads a setting of KindDuration.
func (p Params) Duration(name string) time.Duration {
	d, _ := words.ParseDuration(p.Setting(name))
	return d
}

// DurationOf is a Kind.Takes that reads a setting of KindDuration.
func DurationOf(name string) func(setting func(string) string) time.Duration {
	return func(setting func(string) string) time.Duration {
		return Params{Setting: setting}.Duration(name)
	}
}

// Bool reads a setting of KindBool.
func (p Params) Bool(name string) bool {
	on, _ := strconv.ParseBool(p.Setting(name))
	return on
}

// Secret is the value of a secret setting, or what the file holds that the setting NAME_file names,
// without the line break at its end. It is empty where neither is set.
func (p Params) Secret(name string) (string, error) {
	value, file := p.Setting(name), p.Setting(name+"_file")
	switch {
	case file == "":
		return value, nil
	case value != "":
		return "", fmt.Errorf("set %s or %s_file, not both", name, name)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read %s_file: %w", name, err)
	}
	value = strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s_file: %s is empty", name, file)
	}
	return value, nil
}
