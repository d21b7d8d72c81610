package score

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// simulation is R3: it is a test of the dispatcher, and is run as one.
func (s *Session) simulation(ctx context.Context) result {
	seeds := s.size(200, 1000)
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout", "30m", "-v", "-run",
		"TestSimulation$|TestSimulationGivesTheSameTraceForTheSameSeed$", "./internal/dispatch")
	cmd.Env = append(os.Environ(), fmt.Sprintf("SIMULATE_SEED=%d", s.Stamp.Seed),
		fmt.Sprintf("SIMULATE_SEEDS=%d", seeds))
	began := time.Now()
	said, err := cmd.CombinedOutput()
	var failing *exec.ExitError
	if err != nil && (!errors.As(err, &failing) || failing.ExitCode() != 1) {
		rig.Check(fmt.Errorf("run the simulation: %w: %s", err, said))
	}
	// go test is content with a pattern that no test has.
	if !strings.Contains(string(said), "=== RUN   TestSimulation\n") {
		rig.Check(fmt.Errorf("run the simulation: no such test: %s", said))
	}
	failed := strings.Count(string(said), "--- FAIL: TestSimulation/")
	return judge(err == nil, true,
		"%d seeds from %d on, and those kept: %d violated; same seed, same trace; %s", seeds, s.Stamp.Seed, failed, time.Since(began).Round(time.Second))
}
