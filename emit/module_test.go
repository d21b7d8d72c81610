package emit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// importer is another module's program: it must get along without a single internal
// package.
const importer = `package main

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/emit"
)

func both(ctx context.Context, tx pgx.Tx, old *sql.Tx) (emit.Result, error) {
	e := emit.Event{
		Type: emit.TypeMediaUploaded, AggregateID: uuid.New(), Actor: &emit.Actor{UserID: "u"},
		Data: emit.MediaUploaded{MediaID: uuid.New(), StoreID: uuid.New(), Kind: "photo"},
	}
	if results, err := emit.EmitAll(ctx, tx, []emit.Event{e, e}); err != nil {
		return results[0], err
	}
	return emit.EmitSQL(ctx, old, e)
}

func main() {
	_ = both
	if err := emit.Validate(emit.Event{}); err == nil {
		panic("an empty event is not valid")
	}
}
`

func TestAnotherModuleCanImportIt(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	dir := t.TempDir()
	// The importer pins nothing of its own: it takes this module's requirements.
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	mod = append([]byte("module example.com/shop\n\nrequire github.com/outboxctl/outboxctl v0.0.0\n\nreplace github.com/outboxctl/outboxctl => "+
		strconv.Quote(root)+"\n\n"), mod[len("module github.com/outboxctl/outboxctl\n"):]...)
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), sum, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(importer), 0o600))

	run := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".")
	run.Dir = dir
	run.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	output, err := run.CombinedOutput()
	require.NoError(t, err, string(output))
}

// Every type and payload of the catalogue is reachable from outside.
func TestTheWholeCatalogueIsExported(t *testing.T) {
	t.Parallel()
	exported := declared(t, "payloads.go")
	for _, name := range append(declared(t, "../internal/registry/payloads.go"), declared(t, "../internal/registry/names.go")...) {
		switch {
		case name == "Payload", strings.HasPrefix(name, "Aggregate"), strings.HasPrefix(name, "Topic"):
			// Not an emitter's business.
		default:
			require.Contains(t, exported, name)
		}
	}
}

// declared lists the types and constants of a file.
func declared(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch spec := n.(type) {
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
		case *ast.ValueSpec:
			names = append(names, spec.Names[0].Name)
		case *ast.FuncDecl:
			return false
		}
		return true
	})
	return names
}
