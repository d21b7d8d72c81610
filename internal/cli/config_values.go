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

	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/pubsub"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

func setString(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, raw string) error {
		*field(c) = raw
		return nil
	}
}

func setOneOf(field func(*Config) *string, allowed ...string) func(*Config, string) error {
	return func(c *Config, raw string) error {
		if !slices.Contains(allowed, raw) {
			return fmt.Errorf("%q is none of %s", raw, strings.Join(allowed, ", "))
		}
		*field(c) = raw
		return nil
	}
}

func setBool(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, raw string) error {
		on, err := strconv.ParseBool(raw)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", raw)
		}
		*field(c) = on
		return nil
	}
}

func setInt(field func(*Config) *int, least, most int) func(*Config, string) error {
	return func(c *Config, raw string) error {
		n, err := strconv.Atoi(raw)
		switch {
		case err != nil:
			return fmt.Errorf("%q is not a whole number", raw)
		case n < least || n > most:
			return fmt.Errorf("%d is not between %d and %d", n, least, most)
		}
		*field(c) = n
		return nil
	}
}

// setDuration reads a duration of at least least and, unless most is zero, at most most.
func setDuration(field func(*Config) *time.Duration, least, most time.Duration) func(*Config, string) error {
	return func(c *Config, raw string) error {
		d, err := words.ParseDuration(raw)
		switch {
		case err != nil:
			return err
		case d < least:
			return fmt.Errorf("%s is less than %s", raw, least)
		case most > 0 && d > most:
			return fmt.Errorf("%s is more than %s", raw, most)
		}
		*field(c) = d
		return nil
	}
}

func setHostPort(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, raw string) error {
		if _, port, err := net.SplitHostPort(raw); err != nil || port == "" {
			return fmt.Errorf("%q is not host:port", raw)
		}
		*field(c) = raw
		return nil
	}
}

// setListenAddr is setHostPort where empty means "do not listen".
func setListenAddr(field func(*Config) *string) func(*Config, string) error {
	set := setHostPort(field)
	return func(c *Config, raw string) error {
		if raw == "" {
			*field(c) = ""
			return nil
		}
		return set(c, raw)
	}
}

// setBasePath takes a prefix of addresses as package ui does, whose error names a field of Go's.
func setBasePath(c *Config, raw string) error {
	if _, err := httpd.ParseBasePath(raw); err != nil {
		return err
	}
	c.UI.BasePath = raw
	return nil
}

func setResourceName(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, raw string) error {
		if err := pubsub.ValidateName(pubsub.KindSubscription, raw); err != nil {
			return err
		}
		*field(c) = raw
		return nil
	}
}

// setDatabaseURL checks the form only. The driver's own message is not passed on: it may quote the password.
var errUnescaped = errors.New("has an @ behind the host: write the special characters of a password as %2F, %3F, %23, %40")

// SetDatabaseURL takes a PostgreSQL connection string that can be parsed.
func SetDatabaseURL(c *Config, raw string) error { return setPostgresURL(&c.Database.URL, raw) }

func setReadURL(c *Config, raw string) error { return setPostgresURL(&c.UI.ReadURL, raw) }

func setPostgresURL(to *string, raw string) error {
	if _, err := pgxpool.ParseConfig(raw); err != nil {
		return errors.New("is not a PostgreSQL connection string (postgres://user@host:5432/database)")
	}
	if safetext.Ambiguous(raw) {
		return errUnescaped
	}
	*to = raw
	return nil
}

func setRedisURL(c *Config, raw string) error {
	if safetext.Ambiguous(raw) {
		return errUnescaped
	}
	if _, err := redis.ParseURL(raw); err != nil {
		return errors.New("is not a Redis connection string (redis://host:6379/0 or rediss://…)")
	}
	c.Redis.URL = raw
	return nil
}
