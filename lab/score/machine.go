package score

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// NewStamp describes this machine and these sources, without a name that leads to either.
func NewStamp(ctx context.Context, seed uint64) (_ Stamp, err error) {
	s := Stamp{Seed: seed, Commit: commit(ctx)}
	postgres, err := devstack.PostgresVersion(ctx)
	if err != nil {
		return s, err
	}
	s.Machine = fmt.Sprintf("%d cores, %s memory, %s/%s, PostgreSQL %s, %s, %s",
		runtime.NumCPU(), memory(), runtime.GOOS, runtime.GOARCH, postgres, redisVersion(ctx), runtime.Version())
	return s, nil
}

func commit(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=10", "HEAD").Output()
	if err != nil {
		return "unknown" // a source archive
	}
	return strings.TrimSpace(string(text))
}

func memory() string {
	text, _ := os.ReadFile("/proc/meminfo") // elsewhere than on Linux it is not known
	var kib int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%.0f GiB", float64(kib)/(1<<20))
}

func redisVersion(ctx context.Context) string {
	text, _ := exec.CommandContext(ctx, "redis-server", "--version").Output() // without it there is the in-process one
	for word := range strings.FieldsSeq(string(text)) {
		if version, ok := strings.CutPrefix(word, "v="); ok {
			return "Redis " + version
		}
	}
	return "in-process Redis"
}
