package devstack

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository serves an archive the way the real one is laid out, whatever system is asked for: programs that know their version and
// nothing else.
func repository(t *testing.T, checksum func(archive []byte) string) (url string, requests *int) {
	t.Helper()
	programs, err := os.ReadFile(filepath.Join("testdata", "programs.txz"))
	require.NoError(t, err)
	var archive bytes.Buffer
	writer := zip.NewWriter(&archive)
	entry, err := writer.Create("postgres.txz")
	require.NoError(t, err)
	_, err = entry.Write(programs)
	require.NoError(t, err)
	require.NoError(t, writer.Close())

	requests = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*requests++
		if strings.HasSuffix(r.URL.Path, ".sha256") {
			_, _ = io.WriteString(w, checksum(archive.Bytes()))
			return
		}
		_, _ = w.Write(archive.Bytes())
	}))
	t.Cleanup(func() {
		server.Close()
		http.DefaultClient.CloseIdleConnections() // the library's
	})
	return server.URL, requests
}

func TestDownloadPostgres(t *testing.T) {
	t.Parallel()
	url, requests := repository(t, func(archive []byte) string {
		sum := sha256.Sum256(archive)
		return hex.EncodeToString(sum[:])
	})
	dir := t.TempDir()
	var log strings.Builder
	bin, err := downloadPostgres(t.Context(), dir, url, &log)
	require.NoError(t, err)
	require.Equal(t, postgresBin{dir: filepath.Join(dir, "postgres-bin", "bin"), version: "17.5", major: 17}, bin)
	require.Contains(t, log.String(), "PostgreSQL is not installed: downloading version 17")

	again, err := downloadPostgres(t.Context(), dir, url, &log)
	require.NoError(t, err)
	require.Equal(t, bin, again)
	require.Equal(t, 2, *requests, "the archive and its checksum, once")
}

func TestDownloadPostgresRefusesADamagedArchive(t *testing.T) {
	t.Parallel()
	url, _ := repository(t, func([]byte) string { return "not its checksum" })
	_, err := downloadPostgres(t.Context(), t.TempDir(), url, io.Discard)
	require.ErrorIs(t, err, ErrNoPostgres)
	require.ErrorContains(t, err, "checksums do not match")
}
