package idem_test

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/idem"
)

func TestCheckWarnsAboutEviction(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, startRedis(t, "--maxmemory-policy", "noeviction").client(t), idem.Config{})
	report, err := k.Check(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, report.Version)
	require.Equal(t, "noeviction", report.MaxMemoryPolicy)
	require.Empty(t, report.Warnings)

	k = newKeeper(t, startRedis(t, "--maxmemory-policy", "allkeys-lru").client(t), idem.Config{})
	report, err = k.Check(t.Context())
	require.NoError(t, err)
	require.Len(t, report.Warnings, 1)
	require.Contains(t, report.Warnings[0], "allkeys-lru")
}

func TestCheckLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t).client(t)
	k := newKeeper(t, rdb, idem.Config{})
	_, err := k.Check(t.Context())
	require.NoError(t, err)
	n, err := rdb.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestCheckRefusesAReplica(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	rdb := srv.client(t)
	k := newKeeper(t, rdb, idem.Config{})
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	_, err := k.Check(t.Context())
	require.ErrorIs(t, err, idem.ErrUnsupportedServer)
	require.ErrorContains(t, err, "READONLY")
}

func TestCheckRefusesAnOldServer(t *testing.T) {
	t.Parallel()
	for version, wantErr := range map[string]bool{
		"2.4.18": true, "2.6.11": true, "2.6.12": false, "2.8.0": false, "7.0.15": false, "unheard-of": false,
	} {
		mr := miniredis.RunT(t)
		rdb, err := idem.NewClient("redis://" + mr.Addr())
		require.NoError(t, err)
		rdb.AddHook(answerInfo("redis_version:" + version + "\r\n"))
		k := newKeeper(t, rdb, idem.Config{})
		_, err = k.Check(t.Context())
		if wantErr {
			require.ErrorIs(t, err, idem.ErrUnsupportedServer, version)
			require.ErrorContains(t, err, idem.MinServerVersion)
		} else {
			require.NoError(t, err, version)
		}
	}
}

func TestCheckReportsAnAbsentServer(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	k := newKeeper(t, srv.client(t), idem.Config{})
	srv.stop()
	_, err := k.Check(t.Context())
	require.ErrorIs(t, err, idem.ErrUnavailable)
}

// The in-process server stands in where no Redis is installed, so the keeper
// has to work on it too.
func TestKeeperOnTheInProcessServer(t *testing.T) {
	t.Parallel()
	mr := miniredis.RunT(t)
	rdb, err := idem.NewClient("redis://" + mr.Addr())
	require.NoError(t, err)
	k := newKeeper(t, rdb, idem.Config{})
	_, err = k.Check(t.Context())
	require.NoError(t, err)
	id := uuid.Must(uuid.NewV7())
	outcome, err := k.Process(t.Context(), "c", id, func(context.Context) error { return nil })
	require.NoError(t, err)
	require.Equal(t, idem.Processed, outcome)
	outcome, err = k.Process(t.Context(), "c", id, func(context.Context) error { return nil })
	require.NoError(t, err)
	require.Equal(t, idem.Duplicate, outcome)
}

func TestBadURLsKeepTheirPasswordToThemselves(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"redis://user:canary@host:port/0", "http://user:canary@host", "redis://:canary@host/x", "redis://:can%zzary@h"} {
		_, err := idem.NewClient(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "canary")
		require.NotContains(t, err.Error(), "can%zz")
	}
}
