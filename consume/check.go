package consume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// MinServerVersion is the oldest Redis the guard works on: the first whose SET takes NX and PX.
const MinServerVersion = "2.6.12"

// ServerReport is what CheckServer learnt about the server.
type ServerReport struct {
	// Version as the server states it; empty when it does not.
	Version string
	// MaxMemoryPolicy as the server states it; empty when it does not.
	MaxMemoryPolicy string
	// Warnings are settings under which the guard works but may forget.
	Warnings []string
}

// CheckServer asks the server whether guards can work on it. It runs the real
// scripts on a throw-away key, so a read-only replica, a missing permission or
// a server without scripting is found before the first event. A server that
// does not answer within timeout (0: DefaultTimeout) is ErrUnavailable.
func CheckServer(ctx context.Context, rdb redis.UniversalClient, timeout time.Duration) (ServerReport, error) {
	return newServer(rdb, cmp.Or(timeout, DefaultTimeout)).check(ctx)
}

// InspectServer is CheckServer without the scripts: it writes nothing, and
// only reads what the server says about itself.
func InspectServer(ctx context.Context, rdb redis.UniversalClient, timeout time.Duration) (ServerReport, error) {
	return newServer(rdb, cmp.Or(timeout, DefaultTimeout)).inspect(ctx)
}

// server is the Redis a guard works on.
type server struct {
	rdb     redis.UniversalClient
	timeout time.Duration // of one call
	scripts scripts
}

func newServer(rdb redis.UniversalClient, timeout time.Duration) server {
	return server{rdb: rdb, timeout: timeout, scripts: newScripts()}
}

func (s server) run(ctx context.Context, script *redis.Script, key string, args ...any) *redis.Cmd {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return script.Run(ctx, s.rdb, []string{key}, args...)
}

func (s server) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.timeout)
}

// unavailable names a deadline the same whichever timer was first: the
// context's, or that of the socket, which the client sets from it.
func unavailable(what string, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %w", context.DeadlineExceeded, err)
	}
	return fmt.Errorf("%s: %w: %w", what, ErrUnavailable, err)
}

func (s server) check(ctx context.Context) (ServerReport, error) {
	report, err := s.inspect(ctx)
	if err == nil {
		err = s.probe(ctx)
	}
	return report, err
}

func (s server) inspect(ctx context.Context) (ServerReport, error) {
	var report ServerReport
	info, err := s.info(ctx)
	if err != nil {
		return report, unavailable("ask the server for its version", err)
	}
	report.Version = info["redis_version"]
	report.MaxMemoryPolicy = info["maxmemory_policy"]
	if report.MaxMemoryPolicy == "" {
		report.MaxMemoryPolicy = s.configuredPolicy(ctx)
	}
	if tooOld(report.Version) {
		return report, fmt.Errorf("%w: version %s, need %s or later", ErrUnsupportedServer, report.Version, MinServerVersion)
	}
	if p := report.MaxMemoryPolicy; p != "" && p != "noeviction" {
		report.Warnings = append(report.Warnings, fmt.Sprintf(
			"redis maxmemory-policy is %s: under memory pressure processed marks are evicted and duplicates run again; set it to noeviction", p))
	}
	return report, nil
}

// probe walks one key through the two phases.
func (s server) probe(ctx context.Context) error {
	token := newToken()
	key, lease, ms := "pf:evt:probe:"+token, encodeValue(leasePrefix, token, "probe"), time.Minute.Milliseconds()
	run := func(script *redis.Script, args ...any) error { return s.run(ctx, script, key, args...).Err() }
	err := cmp.Or(run(s.scripts.begin, lease, ms), run(s.scripts.extend, lease, ms),
		run(s.scripts.done, lease, lease, ms, leasePrefix), run(s.scripts.abort, lease))
	switch {
	case err == nil:
		return nil
	case refused(err):
		return fmt.Errorf("%w: run a script: %w", ErrUnsupportedServer, err)
	default:
		return unavailable("run a script", err)
	}
}

// info returns INFO's fields. Servers that know no INFO, or only parts of it,
// leave the map thin; only a transport failure is an error.
func (s server) info(ctx context.Context) (map[string]string, error) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	text, err := s.rdb.Info(ctx).Result()
	if err != nil && !refused(err) {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[name] = value
	}
	return fields, nil
}

// refused reports whether the server refused for good. One that is away,
// loading its data or failing over will answer later.
func refused(err error) bool {
	var answer redis.Error
	if !errors.As(err, &answer) {
		return false
	}
	for _, passing := range []string{"LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "OOM", "MISCONF"} {
		if redis.HasErrorPrefix(err, passing) {
			return false
		}
	}
	return true
}

// configuredPolicy asks CONFIG, which older servers need and managed ones forbid.
func (s server) configuredPolicy(ctx context.Context) string {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	return s.rdb.ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"]
}

// tooOld compares versions number by number. A version that is not made of
// numbers is left to the probe.
func tooOld(version string) bool {
	var have, want [3]int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2])
	_, _ = fmt.Sscanf(MinServerVersion, "%d.%d.%d", &want[0], &want[1], &want[2])
	return slices.Compare(have[:n], want[:n]) < 0
}
