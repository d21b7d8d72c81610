package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// memoryEvery is how often a publisher process is asked for its size.
const memoryEvery = 50 * time.Millisecond

// drainOutside empties the outbox with processes of their own and returns the time
// from the first arrival to the last, and the largest resident size. Starting a
// process is not publishing.
func (r *Trial) drainOutside(ctx context.Context) (took time.Duration, memory int64, err error) {
	sizes := make([]int64, r.Params.Publishers)
	running, ctx := errgroup.WithContext(ctx)
	for i := range sizes {
		running.Go(func() (err error) {
			sizes[i], err = r.process(ctx)
			return err
		})
	}
	err = running.Wait()
	return r.recorder.span(), slices.Max(sizes), err
}

// process runs one outboxctl publish --once and returns its largest resident size.
func (r *Trial) process(ctx context.Context) (memory int64, err error) {
	args := []string{"publish", "--once"}
	if r.Params.Workers > 0 {
		args = append(args, "--workers", fmt.Sprint(r.Params.Workers))
	}
	if r.Params.BatchSize > 0 {
		args = append(args, "--batch-size", fmt.Sprint(r.Params.BatchSize))
	}
	cmd := exec.CommandContext(ctx, r.Params.Executable, args...)
	cmd.Args[0] = "outboxctl" // whatever the file is called
	// Nothing of the caller's own configuration, and nothing secret in the arguments.
	cmd.Env = []string{
		"OUTBOXCTL_DATABASE_URL=" + r.DB.URL,
		"OUTBOXCTL_PUBSUB_EMULATOR=" + r.fake.Addr(),
		"OUTBOXCTL_PUBSUB_PROJECT=" + r.fake.Project,
		"OUTBOXCTL_TOPICS_DOMAIN=" + topics()[domainTopic],
		"OUTBOXCTL_TOPICS_BILLING=" + topics()[billingTopic],
		"OUTBOXCTL_LOG_LEVEL=error",
	}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start publisher process: %w", err)
	}
	done, watched := make(chan struct{}), make(chan int64)
	go func() { watched <- watchMemory(cmd.Process.Pid, done) }()
	err = cmd.Wait()
	close(done)
	memory = <-watched
	r.outside.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
	exit, _ := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return memory, nil
	case exit != nil && exit.ExitCode() == exitPartly && r.Params.Mode.Partly:
		return memory, nil // it says that a topic takes nothing, which is the point
	default:
		return memory, fmt.Errorf("publisher process: %w: %s", err, bytes.TrimSpace(output.Bytes()))
	}
}

// exitPartly is how outboxctl publish --once ends when a topic is unreachable or misconfigured.
const exitPartly = 5

func watchMemory(pid int, done <-chan struct{}) (largest int64) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		largest = max(largest, ResidentPeak(pid))
		select {
		case <-done:
			return largest
		case <-tick.C:
		}
	}
}

// ResidentPeak is the largest resident size a process has had, zero where the
// system does not say. It is read while the process lives: what wait reports
// afterwards includes the size of the parent it was started from.
func ResidentPeak(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, peak, _ := strings.Cut(string(status), "\nVmHWM:")
	var kib int64
	_, _ = fmt.Sscan(peak, &kib) // zero where it is not there
	return kib << 10
}

// CPUTime is the processor time this process has used.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
