package cli

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

// FlagGroup is a group of flags. Every command has the global ones; the others are added where they
// mean something.
type FlagGroup string

const (
	GroupGlobal  FlagGroup = "global"
	GroupPublish FlagGroup = "publish"
	GroupConsume FlagGroup = "consume"
	GroupTopic   FlagGroup = "topic"
	GroupDev     FlagGroup = "dev"
	GroupUI      FlagGroup = "ui"
)

// kindBool is the kind of a setting that is on or off: its flag needs no value.
const kindBool = "bool"

// A Setting is one value that can be configured: its words, its default, where else it may come
// from, and how it is read.
type Setting struct {
	Name   string
	Flag   string // without dashes; empty: no flag
	Kind   string // what the help calls the value
	Help   string
	Def    string
	Secret bool

	groups  []FlagGroup
	aliases []envAlias
	// emptyCounts: an environment variable set to nothing is a value, not an absence.
	emptyCounts bool
	set         func(text string) error
}

// An envAlias is another environment variable of a setting. A bare number in it is in the alias's
// unit.
type envAlias struct {
	name string
	unit string
}

// env names the variable that belongs to the setting.
func (s Setting) env() string {
	return "OUTBOXCTL_" + strings.ToUpper(strings.ReplaceAll(s.Name, ".", "_"))
}

// EnvNames lists the variables a setting is read from, its own first.
func (s Setting) EnvNames() []string {
	names := []string{s.env()}
	for _, alias := range s.aliases {
		names = append(names, alias.name)
	}
	return names
}

// in adds the setting's flag to groups of flags. It has the last part of the setting's name, unless
// flag gave it another.
func (s Setting) in(groups ...FlagGroup) Setting {
	s.groups = groups
	if s.Flag == "" {
		s.Flag = strings.ReplaceAll(s.Name[strings.LastIndex(s.Name, ".")+1:], "_", "-")
	}
	return s
}

func (s Setting) flag(name string) Setting  { s.Flag = name; return s }
func (s Setting) kind(kind string) Setting  { s.Kind = kind; return s }
func (s Setting) secret() Setting           { s.Secret = true; return s }
func (s Setting) alias(name string) Setting { return s.aliasIn("", name) }
func (s Setting) def(text string) Setting   { s.Def = text; return s }
func (s Setting) mayBeEmpty() Setting       { s.emptyCounts = true; return s }
func (s Setting) isIn(group FlagGroup) bool { return slices.Contains(s.groups, group) }
func (s Setting) aliasIn(unit, name string) Setting {
	s.aliases = append(s.aliases, envAlias{name, unit})
	return s
}

// text is a setting that takes any text which the checks let through.
func text(to *string, name, help string, checks ...func(string) error) Setting {
	return Setting{Name: name, Help: help, Kind: "text", set: func(raw string) error {
		for _, check := range checks {
			if err := check(raw); err != nil {
				return err
			}
		}
		*to = raw
		return nil
	}}
}

// oneOf is a setting that takes one of some words.
func oneOf(to *string, name, help string, allowed ...string) Setting {
	return text(to, name, help, func(raw string) error {
		if !slices.Contains(allowed, raw) {
			return fmt.Errorf("%q is none of %s", raw, strings.Join(allowed, ", "))
		}
		return nil
	})
}

func onOff(to *bool, name, help string) Setting {
	return Setting{Name: name, Help: help, Kind: kindBool, Def: "false", set: func(raw string) error {
		on, err := strconv.ParseBool(raw)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", raw)
		}
		*to = on
		return nil
	}}
}

func number(to *int, name, help string, def, least, most int) Setting {
	return Setting{Name: name, Help: help, Kind: "n", Def: strconv.Itoa(def), set: func(raw string) error {
		n, err := strconv.Atoi(raw)
		switch {
		case err != nil:
			return fmt.Errorf("%q is not a whole number", raw)
		case n < least || n > most:
			return fmt.Errorf("%d is not between %d and %d", n, least, most)
		}
		*to = n
		return nil
	}}
}

// duration is a setting of at least least and, unless most is zero, at most most.
func duration(to *time.Duration, name, help string, def, least, most time.Duration) Setting {
	return Setting{Name: name, Help: help, Kind: "duration", Def: wire.SpanText(def), set: func(raw string) error {
		d, err := words.ParseDuration(raw)
		switch {
		case err != nil:
			return err
		case d < least:
			return fmt.Errorf("%s is less than %s", raw, least)
		case most > 0 && d > most:
			return fmt.Errorf("%s is more than %s", raw, most)
		}
		*to = d
		return nil
	}}
}

func isHostPort(raw string) error {
	if _, port, err := net.SplitHostPort(raw); err != nil || port == "" {
		return fmt.Errorf("%q is not host:port", raw)
	}
	return nil
}

// isListenAddr is isHostPort where empty means "do not listen".
func isListenAddr(raw string) error {
	if raw == "" {
		return nil
	}
	return isHostPort(raw)
}

var errUnescaped = errors.New("has an @ behind the host: write the special characters of a password as %2F, %3F, %23, %40")

// IsDatabaseURL checks the form of a PostgreSQL connection string. The driver's own message is not
// passed on: it may quote the password.
func IsDatabaseURL(raw string) error {
	if _, err := pgxpool.ParseConfig(raw); err != nil {
		return errors.New("is not a PostgreSQL connection string (postgres://user@host:5432/database)")
	}
	if safetext.Ambiguous(raw) {
		return errUnescaped
	}
	return nil
}

func isRedisURL(raw string) error {
	if safetext.Ambiguous(raw) {
		return errUnescaped
	}
	if _, err := redis.ParseURL(raw); err != nil {
		return errors.New("is not a Redis connection string (redis://host:6379/0 or rediss://…)")
	}
	return nil
}
