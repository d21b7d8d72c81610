package idem

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// MinServerVersion is the oldest Redis the keeper works on: the first whose SET
// takes NX and PX.
const MinServerVersion = "2.6.12"

// ServerReport is what Check learnt about the server.
type ServerReport struct {
	// Version as the server states it; empty when it does not.
	Version string
	// MaxMemoryPolicy as the server states it; empty when it does not.
	MaxMemoryPolicy string
	// Warnings are settings under which the keeper works but may forget.
	Warnings []string
}

// Check asks the server whether the keeper can work on it. It runs the real
// scripts on a throw-away key, so a read-only replica, a missing permission or
// a server without scripting is found before the first event.
func (k *Keeper) Check(ctx context.Context) (ServerReport, error) {
	var report ServerReport
	info, err := k.info(ctx)
	if err != nil {
		return report, unavailable("ask the server for its version", err)
	}
	report.Version = info["redis_version"]
	report.MaxMemoryPolicy = info["maxmemory_policy"]
	if report.MaxMemoryPolicy == "" {
		report.MaxMemoryPolicy = k.configuredPolicy(ctx)
	}
	if tooOld(report.Version) {
		return report, fmt.Errorf("%w: version %s, need %s or later", ErrUnsupportedServer, report.Version, MinServerVersion)
	}
	if err := k.probe(ctx); err != nil {
		return report, err
	}
	if p := report.MaxMemoryPolicy; p != "" && p != "noeviction" {
		report.Warnings = append(report.Warnings, fmt.Sprintf(
			"redis maxmemory-policy is %s: under memory pressure processed marks are evicted and duplicates run again; set it to noeviction", p))
	}
	return report, nil
}

// Ping is the cheap question, for readiness probes and for waiting until the
// server is back.
func (k *Keeper) Ping(ctx context.Context) error {
	ctx, cancel := k.bound(ctx)
	defer cancel()
	if err := k.rdb.Ping(ctx).Err(); err != nil {
		return unavailable("ping", err)
	}
	return nil
}

// probe walks one key through the two phases.
func (k *Keeper) probe(ctx context.Context) error {
	key := "pf:evt:probe:" + newToken()
	claim := &Claim{k: k, key: key, lease: encodeValue(leasePrefix, newToken(), k.cfg.Now(), k.cfg.Owner)}
	lease := time.Minute.Milliseconds()
	steps := []struct {
		script *redis.Script
		args   []any
	}{
		{k.scripts.begin, []any{claim.lease, lease}},
		{k.scripts.extend, []any{claim.lease, lease}},
		{k.scripts.done, []any{claim.lease, claim.lease, lease, leasePrefix}},
		{k.scripts.abort, []any{claim.lease}},
	}
	for _, step := range steps {
		if err := k.run(ctx, step.script, key, step.args...).Err(); err != nil {
			if refused(err) {
				return fmt.Errorf("%w: run a script: %w", ErrUnsupportedServer, err)
			}
			return unavailable("run a script", err)
		}
	}
	return nil
}

// info returns INFO's fields. Servers that know no INFO, or only parts of it,
// leave the map thin; only a transport failure is an error.
func (k *Keeper) info(ctx context.Context) (map[string]string, error) {
	fields := map[string]string{}
	ctx, cancel := k.bound(ctx)
	defer cancel()
	text, err := k.rdb.Info(ctx).Result()
	if err != nil {
		if refused(err) {
			return fields, nil
		}
		return nil, err
	}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields, nil
}

// refused tells a server that says no for good from one that is away, loading
// its data or failing over, all of which pass.
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
func (k *Keeper) configuredPolicy(ctx context.Context) string {
	ctx, cancel := k.bound(ctx)
	defer cancel()
	values, err := k.rdb.ConfigGet(ctx, "maxmemory-policy").Result()
	if err != nil {
		return ""
	}
	return values["maxmemory-policy"]
}

// tooOld compares versions number by number. A version nobody can read is left
// to the probe to judge.
func tooOld(version string) bool {
	have, want := strings.Split(version, "."), strings.Split(MinServerVersion, ".")
	for i, w := range want {
		if i >= len(have) {
			return false
		}
		h, err := strconv.Atoi(have[i])
		if err != nil {
			return false
		}
		n, _ := strconv.Atoi(w)
		if h != n {
			return h < n
		}
	}
	return false
}
