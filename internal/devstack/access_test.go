package devstack_test

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// secretOf is the password in a connection string.
func secretOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	password, given := u.User.Password()
	require.True(t, given)
	require.GreaterOrEqual(t, len(password), 20)
	return password
}

// without is the connection string for another user.
func without(t *testing.T, raw string, user *url.Userinfo) string {
	t.Helper()
	u, err := url.Parse(raw)
	require.NoError(t, err)
	u.User = user
	return u.String()
}

// requireSecret holds that only the folder's owner can read the password: of the files, those it is in are closed to
// others, and no command line shows it.
func requireSecret(t *testing.T, dir, secret string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if strings.Contains(string(content), secret) {
			info, err := entry.Info()
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), path)
		}
		return nil
	}))
	shown, err := exec.CommandContext(t.Context(), "ps", "-A", "-o", "args").Output()
	if err != nil {
		t.Skip("needs ps")
	}
	require.NotContains(t, string(shown), secret)
}

// The port is open to every user of the machine, and a superuser may run programs.
func TestPostgresAsksForItsPassword(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	server, err := devstack.StartPostgres(t.Context(), devstack.PostgresParams{Dir: dir})
	require.NoError(t, err)
	good := server.URL("postgres")
	for name, user := range map[string]*url.Userinfo{
		"no password": url.User("postgres"), "another password": url.UserPassword("postgres", "guess"), "another role": url.User("nobody"),
	} {
		conn, err := pgx.Connect(t.Context(), without(t, good, user))
		if err == nil {
			_ = conn.Close(t.Context())
		}
		var refused *pgconn.PgError
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, pgerrcode.InvalidPassword, refused.Code, name)
	}
	requireSecret(t, dir, secretOf(t, good))
	require.NoError(t, server.Stop(t.Context()))

	again := startPostgres(t, devstack.PostgresParams{Dir: dir})
	require.Equal(t, secretOf(t, good), secretOf(t, again.URL("postgres")), "it lasts as long as the data")
	require.Equal(t, "1", query(t, again.URL("postgres"), "SELECT '1'"))
}

func TestPostgresRefusesADatabaseWithoutPasswords(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	server, err := devstack.StartPostgres(t.Context(), devstack.PostgresParams{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, server.Stop(t.Context()))
	require.NoError(t, os.Remove(filepath.Join(dir, "postgres.password"))) // as early versions left it
	_, err = devstack.StartPostgres(t.Context(), devstack.PostgresParams{Dir: dir})
	require.ErrorIs(t, err, devstack.ErrNoPassword)
}

func TestRedisAsksForItsPassword(t *testing.T) {
	t.Parallel()
	for _, inProcess := range []bool{false, true} {
		t.Run("in-process "+strconv.FormatBool(inProcess), func(t *testing.T) {
			t.Parallel()
			dir := stateDir(t)
			server, err := devstack.StartRedis(t.Context(), devstack.RedisParams{Dir: dir, InProcess: inProcess})
			require.NoError(t, err)
			defer func() { require.NoError(t, server.Kill()) }()
			for refusal, user := range map[string]*url.Userinfo{"NOAUTH": nil, "WRONGPASS": url.UserPassword("", "guess")} {
				options, err := redis.ParseURL(without(t, server.URL(), user))
				require.NoError(t, err)
				client := redis.NewClient(options)
				require.ErrorContains(t, client.Get(t.Context(), "key").Err(), refusal)
				require.NoError(t, client.Close())
			}
			requireSecret(t, dir, secretOf(t, server.URL()))
		})
	}
}
