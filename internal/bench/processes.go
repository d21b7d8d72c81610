package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
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
	var largest atomic.Int64
	running, ctx := errgroup.WithContext(ctx)
	for range r.Params.Publishers {
		running.Go(func() error { return r.process(ctx, &largest) })
	}
	err = running.Wait()
	return r.recorder.span(), largest.Load(), err
}

// process runs one outboxctl publish --once.
func (r *Trial) process(ctx context.Context, largest *atomic.Int64) error {
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
		return fmt.Errorf("start publisher process: %w", err)
	}
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		watchMemory(cmd.Process.Pid, done, largest)
	}()
	err := cmd.Wait()
	close(done)
	<-watched
	r.outside.Add(int64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()))
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == exitPartly && r.Params.Mode.Partly {
		return nil // it says that a topic takes nothing, which is the point
	}
	if err != nil {
		return fmt.Errorf("publisher process: %w: %s", err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}

// exitPartly is how outboxctl publish --once ends when a topic is unreachable or misconfigured.
const exitPartly = 5

func watchMemory(pid int, done <-chan struct{}, largest *atomic.Int64) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		size := ResidentPeak(pid)
		for {
			seen := largest.Load()
			if size <= seen || largest.CompareAndSwap(seen, size) {
				break
			}
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// ResidentPeak is the largest resident size a process has had, zero where the
// system does not say. It is read while the process lives: what wait reports
// afterwards includes the size of the parent it was started from.
func ResidentPeak(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return kib << 10
		}
	}
	return 0
}

// CPUTime is the processor time this process has used.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
