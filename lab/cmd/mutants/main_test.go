package main

import (
	"context"
	"go/ast"
	"go/constant"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/lab/rig"
)

func TestMain(m *testing.M) {
	// What the torture run imports starts a goroutine when it is loaded.
	outboxtest.Main(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

const module = "github.com/outboxctl/outboxctl"

// A mutant that has lost its ground, does not compile, has SQL that the server refuses, or changes what is in none of the
// tortured programs would be noticed at the next hunt at best, and at worst be taken for killed.
func TestEveryMutantIsABugOfThePrograms(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	require.NoError(t, err)
	compiler := newCompiler(t, root)
	names := map[string]bool{}
	for _, m := range catalogue() {
		require.False(t, names[m.name], "%s is there twice", m.name)
		names[m.name] = true
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, m.breaks)
			var planted sources
			require.NoError(t, rig.Carry(func() { planted = m.plant(root) }))
			require.NotEmpty(t, planted)
			if functions := changed(m.edits, "migrations"); len(functions) > 0 {
				require.Equal(t, functions, redefined(t, root, planted))
			}
			for _, dir := range packages(m) {
				accepted(t, compiler.unplanted(t, dir), compiler.constants(t, dir, planted))
			}
		})
	}
}

// compiler checks types. What packages import is read once for all mutants, and so are the packages without a mutant.
type compiler struct {
	root    string
	exports map[string]string
	files   *token.FileSet

	mu       sync.Mutex // one package at a time
	imports  types.Importer
	original map[string]map[string]string
}

func newCompiler(t *testing.T, root string) *compiler {
	t.Helper()
	c := &compiler{root: root, exports: linked(t, root), files: token.NewFileSet(), original: map[string]map[string]string{}}
	c.imports = importer.ForCompiler(c.files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(c.exports[path]) })
	return c
}

// unplanted returns the constants of a package as it is.
func (c *compiler) unplanted(t *testing.T, dir string) map[string]string {
	t.Helper()
	c.mu.Lock()
	found, known := c.original[dir]
	c.mu.Unlock()
	if !known {
		found = c.constants(t, dir, nil)
		c.mu.Lock()
		c.original[dir] = found
		c.mu.Unlock()
	}
	return found
}

// linked returns the compiled packages of the programs that are tortured, by import path.
func linked(t *testing.T, root string) map[string]string {
	t.Helper()
	// Compiled like this test and without the failpoints, which change no type: so they have been compiled for the suite already.
	info, ok := debug.ReadBuildInfo()
	require.True(t, ok)
	race := slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-race" && s.Value == "true" })
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-race="+strconv.FormatBool(race),
		"-f", "{{.ImportPath}} {{.Export}}", ".", "./lab/cmd/torture")
	list.Dir, list.Stderr = root, os.Stderr
	said, err := list.Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(said)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	return exports
}

// changed lists the declarations of a folder that are edited.
func changed(edits []edit, in string) []string {
	found := map[string]bool{}
	for _, e := range edits {
		if dir, name, _ := strings.Cut(e.in, " "); dir == in {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// packages lists the folders whose Go code a mutant changes.
func packages(m mutant) []string {
	found := map[string]bool{}
	for _, a := range m.adds {
		found[a.dir] = true
	}
	for _, e := range m.edits {
		dir, _, _ := strings.Cut(e.in, " ")
		found[dir] = true
	}
	delete(found, "migrations")
	return slices.Sorted(maps.Keys(found))
}

// constants compiles a package as far as types go and returns its string constants.
func (c *compiler) constants(t *testing.T, dir string, planted sources) map[string]string {
	t.Helper()
	path := module + "/" + dir
	require.Contains(t, c.exports, path, "in none of the programs that are tortured")
	files := goFiles(filepath.Join(c.root, dir))
	if added := filepath.Join(c.root, dir, additionFile); planted[added] != "" {
		files = append(files, added)
	}
	var parsed []*ast.File
	for _, name := range files {
		file, err := parser.ParseFile(c.files, name, planted.read(name), parser.SkipObjectResolution)
		require.NoError(t, err)
		parsed = append(parsed, file)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	config := types.Config{Importer: c.imports}
	pkg, err := config.Check(path, c.files, parsed, nil)
	require.NoError(t, err)
	found := map[string]string{}
	for _, name := range pkg.Scope().Names() {
		if text, ok := pkg.Scope().Lookup(name).(*types.Const); ok && text.Val().Kind() == constant.String {
			found[name] = constant.StringVal(text.Val())
		}
	}
	return found
}

// accepted has a server read the statements that differ. A change that reaches none of them is no bug.
func accepted(t *testing.T, before, after map[string]string) {
	t.Helper()
	statement := regexp.MustCompile(`(?i)^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)\s`)
	var tx pgx.Tx
	var differ int
	for name, text := range after {
		if text == before[name] {
			continue
		}
		differ++
		part := func(whole string) bool { return whole != text && strings.Contains(whole, text) }
		if !statement.MatchString(text) || slices.ContainsFunc(slices.Collect(maps.Values(after)), part) {
			continue
		}
		if tx == nil {
			var err error
			tx, err = outboxtest.DB(t).Pool.Begin(t.Context())
			require.NoError(t, err)
			defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
		}
		_, err := tx.Prepare(t.Context(), name, text)
		require.NoError(t, err, "%s: %s", name, text)
	}
	require.True(t, differ == 0 || tx != nil, "the constants that differ are in no statement")
}

// redefined lists the functions of the schema that are others after the planted migrations.
func redefined(t *testing.T, root string, planted sources) []string {
	t.Helper()
	files := fstest.MapFS{}
	paths, err := filepath.Glob(filepath.Join(root, "migrations", "*.sql"))
	require.NoError(t, err)
	for _, path := range paths {
		files[filepath.Base(path)] = &fstest.MapFile{Data: []byte(planted.read(path))}
	}
	db := outboxtest.EmptyDB(t)
	_, err = migrate.Up(t.Context(), db.Pool, migrate.Options{Migrations: files})
	require.NoError(t, err)
	before, after := functions(t, outboxtest.DB(t).Pool), functions(t, db.Pool)
	var differ []string
	for name, text := range after {
		if text != before[name] {
			differ = append(differ, name)
		}
	}
	slices.Sort(differ)
	return differ
}

func functions(t *testing.T, pool *pgxpool.Pool) map[string]string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
SELECT proname::text, pg_get_functiondef(oid) FROM pg_proc
 WHERE pronamespace = current_schema()::regnamespace AND prokind = 'f'`)
	require.NoError(t, err)
	found := map[string]string{}
	var name, text string
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		found[name] += text
		return nil
	})
	require.NoError(t, err)
	return found
}
