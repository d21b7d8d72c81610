package main_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	program = "github.com/outboxctl/outboxctl"
	// requiredVersion is the version at which the modules of this tree require each other.
	requiredVersion = "v0.1.0"
)

// libraries are the modules that others import.
var libraries = []string{program + "/emit", program + "/emit/otelemit", program + "/consume", program + "/catalogue"}

// service is a program in a module of its own.
type service struct {
	// name is the package it imports. module is where that is; empty: it has one of its own.
	name, module, source string
	// requires are all modules of its go.mod once it is tidy.
	requires []string
}

var services = []service{
	{
		name: "emit", source: `package main

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
)

func both(ctx context.Context, tx pgx.Tx, old *sql.Tx) (emit.Result, error) {
	e := emit.Event{
		Type: packfinderz.TypeMediaUploaded, AggregateID: uuid.NewString(), Actor: &emit.Actor{UserID: "u"},
		Data: packfinderz.MediaUploaded{MediaID: uuid.New(), StoreID: uuid.New(), Kind: "photo"},
	}
	if results, err := packfinderz.EmitAll(ctx, tx, []emit.Event{e, e}); err != nil {
		return results[0], err
	}
	return packfinderz.EmitSQL(ctx, old, e)
}

func main() {
	_ = both
	if err := packfinderz.Validate(emit.Event{}); err == nil {
		panic("an empty event is valid")
	}
}
`,
		requires: []string{
			"github.com/google/uuid", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5",
			"github.com/outboxctl/outboxctl/emit", "golang.org/x/text",
		},
	},
	{
		name: "catalogue", source: `package main

import (
	"os"

	"github.com/outboxctl/outboxctl/catalogue"
)

func main() {
	if _, err := catalogue.Load(os.DirFS("."), "none.yaml"); err == nil {
		panic("a file that is not there is a catalogue")
	}
	if _, err := catalogue.New("shop", catalogue.Type{Name: "order.ready", Topic: "orders", Aggregate: "order"}); err != nil {
		panic(err)
	}
}
`,
		requires: []string{
			"github.com/google/uuid", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5",
			"github.com/jackc/puddle/v2", "github.com/outboxctl/outboxctl/catalogue", "github.com/outboxctl/outboxctl/emit",
			"github.com/santhosh-tekuri/jsonschema/v6", "go.yaml.in/yaml/v3", "golang.org/x/sync", "golang.org/x/text",
		},
	},
	{
		name: "dispatch", module: program, source: `package main

import (
	"context"

	"github.com/outboxctl/outboxctl/dispatch"
)

func main() {
	publisher := dispatch.Each(func(ctx context.Context, topic string, m dispatch.Message) error { return nil }, 8)
	if _, err := dispatch.New(context.Background(), dispatch.Config{Publisher: publisher}); err == nil {
		panic("a dispatcher needs no database")
	}
}
`,
		requires: []string{
			"github.com/beorn7/perks", "github.com/cespare/xxhash/v2", "github.com/dustin/go-humanize", "github.com/google/uuid", "github.com/jackc/pgerrcode", "github.com/jackc/pgpassfile",
			"github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2", "github.com/munnerz/goautoneg",
			program, "github.com/outboxctl/outboxctl/catalogue", "github.com/outboxctl/outboxctl/emit", "github.com/prometheus/client_golang",
			"github.com/prometheus/client_model", "github.com/prometheus/common", "github.com/prometheus/procfs",
			"github.com/santhosh-tekuri/jsonschema/v6", "go.opentelemetry.io/otel",
			"go.opentelemetry.io/otel/trace", "go.yaml.in/yaml/v3", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/text", "golang.org/x/time",
			"google.golang.org/protobuf",
		},
	},
	{
		name: "migrate", module: program, source: `package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/migrate"
)

func up(ctx context.Context, pool *pgxpool.Pool) (migrate.Result, error) {
	return migrate.Up(ctx, pool, migrate.Options{Types: migrate.Text})
}

func main() { _ = up }
`,
		requires: []string{
			"github.com/jackc/pgerrcode", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/pgx/v5",
			"github.com/jackc/puddle/v2", "github.com/mfridman/interpolate", program, "github.com/pressly/goose/v3", "github.com/sethvargo/go-retry",
			"go.uber.org/multierr", "golang.org/x/sync", "golang.org/x/text",
		},
	},
	{
		name: "consume", source: `package main

import (
	"context"

	"github.com/outboxctl/outboxctl/consume"
)

func handle(ctx context.Context, msg consume.Message, attributes map[string]string, send func(context.Context) error) error {
	rdb, err := consume.NewClient("redis://127.0.0.1:6379/0")
	if err != nil {
		return err
	}
	guard, err := consume.New(rdb, "mailer", consume.Options{})
	if err != nil {
		return err
	}
	_, err = guard.Handle(ctx, msg, attributes[consume.AttrEventID], send)
	return err
}

func main() { _ = handle }
`,
		requires: []string{
			"github.com/cespare/xxhash/v2", "github.com/google/uuid", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile",
			"github.com/jackc/pgx/v5", "github.com/outboxctl/outboxctl/consume", "github.com/outboxctl/outboxctl/emit",
			"github.com/redis/go-redis/v9", "go.uber.org/atomic", "golang.org/x/sys", "golang.org/x/text",
		},
	},
}

// A library brings its users the modules that are written down and no more: the dependency of one package becomes theirs.
func TestLibrariesRequireNoMore(t *testing.T) {
	t.Parallel()
	args := []string{"list", "-deps", "-json=ImportPath,Imports,Module"}
	needs := map[string][]string{} // packages by the service that imports them
	for _, s := range services {
		for _, spec := range parse(t, s.name+".go", []byte(s.source)).Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			needs[s.name] = append(needs[s.name], imported)
		}
		args = append(args, needs[s.name]...)
	}
	output, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err)
	modules := map[string]map[string]bool{} // by the package that needs them, below it included; go list has what a package imports before it
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p struct {
			ImportPath string
			Imports    []string
			Module     *struct{ Path string }
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		}
		modules[p.ImportPath] = map[string]bool{}
		if p.Module != nil {
			modules[p.ImportPath][p.Module.Path] = true
		}
		for _, imported := range p.Imports {
			maps.Copy(modules[p.ImportPath], modules[imported])
		}
	}
	for _, s := range services {
		all := map[string]bool{}
		for _, imported := range needs[s.name] {
			maps.Copy(all, modules[imported])
		}
		require.ElementsMatch(t, s.requires, slices.Collect(maps.Keys(all)), s.name)
	}
}

// go install refuses a module that replaces or excludes another.
func TestModulesReplaceNothing(t *testing.T) {
	t.Parallel()
	for _, module := range append(slices.Clone(libraries), program) {
		text, err := os.ReadFile(filepath.Join(folderOf(module), "go.mod"))
		require.NoError(t, err)
		require.NotRegexp(t, `(?m)^(replace|exclude)`, string(text), module)
	}
}

// What users install and import builds from the modules as they are published: no go.work, no replace lines. It builds the
// program once more, in a minute; the rehearsal of a release asks for it.
func TestModulesAsPublished(t *testing.T) {
	t.Parallel()
	if os.Getenv("OUTBOXTEST_PUBLISHED") == "" {
		t.Skip("make release-rehearsal runs this; OUTBOXTEST_PUBLISHED=1 asks for it")
	}
	published := publish(t)
	// First and alone: the services find what it has built in the build cache.
	t.Run("go install", published.install)
	for _, s := range services {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			published.serve(t, s)
		})
	}
}

func (p publication) install(t *testing.T) {
	bin := t.TempDir()
	p.env = append(slices.Clone(p.env), "GOBIN="+bin)
	args := append([]string{"go", "install", "-ldflags=-s -w"}, raceFlag()...) // it is not debugged: linking takes half the time
	p.run(t, bin, append(args, program+"@"+p.version)...)
	name := "outboxctl"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	require.Contains(t, p.run(t, bin, filepath.Join(bin, name), "version"), p.version)
}

// serve builds and runs a service outside this tree, which takes over the few requirements of its library only.
func (p publication) serve(t *testing.T, s service) {
	t.Helper()
	dir := t.TempDir()
	module := cmp.Or(s.module, program+"/"+s.name)
	sums, err := os.ReadFile(filepath.Join(folderOf(module), "go.sum")) // it has all the checksums
	require.NoError(t, err)
	for name, content := range map[string]string{
		"main.go": s.source,
		"go.sum":  string(sums),
		"go.mod":  fmt.Sprintf("module example.com/service\n\ngo 1.26.0\n\nrequire %s %s\n", module, p.version),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	p.run(t, dir, "go", "mod", "tidy")
	p.run(t, dir, slices.Concat([]string{"go", "run"}, raceFlag(), []string{"."})...)
	var mod struct{ Require []struct{ Path string } }
	require.NoError(t, json.Unmarshal([]byte(p.run(t, dir, "go", "mod", "edit", "-json")), &mod))
	var requires []string
	for _, r := range mod.Require {
		requires = append(requires, r.Path)
	}
	require.ElementsMatch(t, s.requires, requires)
}

// raceFlag builds as the tests were built: what they need is in the build cache.
func raceFlag() []string {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return []string{"-race"}
	}
	return nil
}

// publication is this tree as a module proxy serves it, under a version that no other checkout has and that stays the same: the
// build cache goes by it, so that a run builds only what has changed since the last.
type publication struct {
	version string
	env     []string
}

func publish(t *testing.T) publication {
	t.Helper()
	proxy := t.TempDir()
	checkout, err := filepath.Abs(".")
	require.NoError(t, err)
	p := publication{version: fmt.Sprintf("%s-test.c%x", requiredVersion, crc32.ChecksumIEEE([]byte(checkout)))}
	p.env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw -buildvcs=false", "GOSUMDB=off", "GOTOOLCHAIN=local", "GONOPROXY=none", "GOPRIVATE=",
		"GODEBUG=goindex=0") // the index takes it that a version's files never change
	cache := strings.TrimSpace(p.run(t, ".", "go", "env", "GOMODCACHE"))
	p.holdVersion(t, cache)
	for _, module := range append(libraries, program) {
		folder := folderOf(module)
		versions := filepath.Join(proxy, filepath.FromSlash(module), "@v")
		require.NoError(t, os.MkdirAll(versions, 0o700))
		mod := p.goMod(t, folder)
		for ext, content := range map[string][]byte{
			".info": fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, p.version), ".mod": mod, ".zip": p.archive(t, module, folder, mod),
		} {
			require.NoError(t, os.WriteFile(filepath.Join(versions, p.version+ext), content, 0o600))
		}
		require.NoError(t, os.WriteFile(filepath.Join(versions, "list"), []byte(p.version+"\n"), 0o600))
	}
	others := strings.TrimSpace(p.run(t, ".", "go", "env", "GOPROXY"))
	p.env = append(p.env, "GOPROXY=file://"+filepath.ToSlash(proxy)+","+others)
	return p
}

// holdVersion keeps other runs in this checkout waiting until the test is over, and the version out of the module cache
// before and after: the cache keeps what it was given once. The kernel lets go of the lock of a run that was killed.
func (p publication) holdVersion(t *testing.T, cache string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(cache, "cache", program[strings.LastIndex(program, "/")+1:]+"@"+p.version+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	require.NoError(t, syscall.Flock(int(file.Fd()), syscall.LOCK_EX))
	forget := func() {
		for _, module := range append(libraries, program) {
			require.NoError(t, os.RemoveAll(filepath.Join(cache, filepath.FromSlash(module)+"@"+p.version)))
			left, err := filepath.Glob(filepath.Join(cache, "cache", "download", filepath.FromSlash(module), "@v", p.version+".*"))
			require.NoError(t, err)
			for _, file := range left {
				require.NoError(t, os.Remove(file))
			}
		}
	}
	forget()
	t.Cleanup(forget)
}

// folderOf is the folder of one of our modules.
func folderOf(module string) string {
	return filepath.Join(".", filepath.FromSlash(strings.TrimPrefix(strings.TrimPrefix(module, program), "/")))
}

// goMod returns a module's go.mod, which requires the other modules of this tree at the version they are published as.
func (p publication) goMod(t *testing.T, folder string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	for _, library := range libraries {
		text = bytes.ReplaceAll(text, []byte(library+" "+requiredVersion+"\n"), []byte(library+" "+p.version+"\n"))
	}
	return text
}

// archive packs a module without the modules inside it and without what a build left there.
func (p publication) archive(t *testing.T, module, folder string, mod []byte) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	require.NoError(t, filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(folder, path)
		if err != nil || name == "." {
			return err
		}
		if entry.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if nested == nil || strings.HasPrefix(entry.Name(), ".") || name == "bin" || name == "dist" {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() || name == ".git" {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if name == "go.mod" {
			content = mod
		}
		file, err := w.CreateHeader(&zip.FileHeader{Name: module + "@" + p.version + "/" + filepath.ToSlash(name), Method: zip.Store})
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		return err
	}))
	require.NoError(t, w.Close())
	return packed.Bytes()
}

func (p publication) run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, p.env
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s: %s%s", strings.Join(args, " "), stdout.String(), stderr.String())
	return stdout.String()
}
