package consume_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const importer = `package mailer

import (
	"context"

	"github.com/outboxctl/outboxctl/consume"
)

func Handle(ctx context.Context, msg consume.Message, eventID string, send func(context.Context) error) error {
	rdb, err := consume.NewClient("redis://127.0.0.1:6379/0")
	if err != nil {
		return err
	}
	guard, err := consume.New(rdb, "mailer", consume.Options{})
	if err != nil {
		return err
	}
	_, err = guard.Handle(ctx, msg, eventID, send)
	return err
}
`

// A service that imports the package builds without any other module of this
// repository, and takes over the Redis client and the UUIDs.
func TestWhatAnotherModuleTakesOver(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	require.NoError(t, err)
	sum, err := os.ReadFile("go.sum")
	require.NoError(t, err)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"mailer.go": importer,
		"go.sum":    string(sum),
		"go.mod": fmt.Sprintf("module example.com/mailer\n\ngo 1.26.0\n\nrequire github.com/outboxctl/outboxctl/consume v0.1.0\n\n"+
			"replace github.com/outboxctl/outboxctl/consume => %q\n", here),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	goTool := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
		output, err := cmd.Output()
		require.NoError(t, err, "go %s", args)
		return string(output)
	}
	goTool("build", ".")
	modules := strings.Fields(goTool("list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "."))
	slices.Sort(modules)
	require.Equal(t, []string{
		"example.com/mailer", "github.com/cespare/xxhash/v2", "github.com/google/uuid",
		"github.com/outboxctl/outboxctl/consume", "github.com/redis/go-redis/v9", "go.uber.org/atomic", "golang.org/x/sys",
	}, slices.Compact(modules))
}
