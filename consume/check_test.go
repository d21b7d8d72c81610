package consume_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
)

func TestCheckWarnsAboutEviction(t *testing.T) {
	t.Parallel()
	report, err := consume.CheckServer(t.Context(), startRedis(t, "--maxmemory-policy", "noeviction").client(t), 0)
	require.NoError(t, err)
	require.NotEmpty(t, report.Version)
	require.Equal(t, "noeviction", report.MaxMemoryPolicy)
	require.Empty(t, report.Warnings)

	g := guardOn(t, startRedis(t, "--maxmemory-policy", "allkeys-lru").client(t), consume.Options{})
	warnings, err := g.Check(t.Context())
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "allkeys-lru")
}

func TestCheckLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	rdb := startRedis(t).client(t)
	_, err := consume.CheckServer(t.Context(), rdb, 0)
	require.NoError(t, err)
	n, err := rdb.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestCheckRefusesAReplica(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	rdb := srv.client(t)
	k := guardOn(t, rdb, consume.Options{})
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	_, err := k.Check(t.Context())
	require.ErrorIs(t, err, consume.ErrUnsupportedServer)
	require.ErrorContains(t, err, "READONLY")
}

func TestCheckRefusesAnOldServer(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	for version, wantErr := range map[string]bool{
		"2.4.18": true, "2.6.11": true, "2.6.12": false, "2.8.0": false, "7.0.15": false, "unheard-of": false,
	} {
		rdb := srv.client(t)
		rdb.AddHook(answerInfo("redis_version:" + version + "\r\n"))
		_, err := guardOn(t, rdb, consume.Options{}).Check(t.Context())
		if wantErr {
			require.ErrorIs(t, err, consume.ErrUnsupportedServer, version)
			require.ErrorContains(t, err, consume.MinServerVersion)
		} else {
			require.NoError(t, err, version)
		}
	}
}

func TestCheckReportsAnAbsentServer(t *testing.T) {
	t.Parallel()
	srv := startRedis(t)
	k := guardOn(t, srv.client(t), consume.Options{})
	srv.stop()
	_, err := k.Check(t.Context())
	require.ErrorIs(t, err, consume.ErrUnavailable)
}

func TestBadURLsKeepTheirPasswordToThemselves(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"redis://user:canary@host:port/0", "http://user:canary@host", "redis://:canary@host/x", "redis://:can%zzary@h"} {
		_, err := consume.NewClient(bad)
		require.Error(t, err, bad)
		require.NotContains(t, err.Error(), "canary")
		require.NotContains(t, err.Error(), "can%zz")
	}
}
