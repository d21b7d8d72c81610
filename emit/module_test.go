package emit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	"github.com/outboxctl/outboxctl/emit/builtin"
)

func both(ctx context.Context, tx pgx.Tx, old *sql.Tx) (emit.Result, error) {
	e := emit.Event{
		Type: builtin.TypeMediaUploaded, AggregateID: uuid.New(), Actor: &emit.Actor{UserID: "u"},
		Data: builtin.MediaUploaded{MediaID: uuid.New(), StoreID: uuid.New(), Kind: "photo"},
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
