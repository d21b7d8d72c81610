//go:build failpoints && unix

package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled reports whether this build has failpoints.
const Enabled = true

// armed is read once. Package state is what a failpoint is: the code that passes it must not have
// to carry anything.
//
//nolint:global // exists in test builds only
var armed = sync.OnceValue(func() *point {
	p, err := parse(os.Getenv(Env))
	if err != nil {
		panic(err) // a harness that misspells its failpoint must not believe that the code survived it
	}
	return p
})

type point struct {
	name string
	stop bool
	at   int64
	hits atomic.Int64
}

func parse(text string) (*point, error) {
	if text == "" {
		return &point{}, nil
	}
	parts := strings.Split(text, ":")
	if len(parts) != 3 || parts[1] != "crash" && parts[1] != "stop" {
		return nil, fmt.Errorf("%s=%q is not NAME:crash|stop:HIT", Env, text)
	}
	at, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil || at < 1 {
		return nil, fmt.Errorf("%s=%q: the hit must be a number from 1", Env, text)
	}
	return &point{name: parts[0], stop: parts[1] == "stop", at: at}, nil
}

// Hit dies or stands still when the process was told to do so here, at this passage. Death is
// SIGKILL: nothing deferred runs, nothing is flushed, no connection says goodbye.
func Hit(name string) {
	p := armed()
	if p.name != name || p.hits.Add(1) != p.at {
		return
	}
	sig := syscall.SIGKILL
	if p.stop {
		sig = syscall.SIGSTOP
	}
	_ = syscall.Kill(os.Getpid(), sig) // cannot fail for ourselves
	if !p.stop {
		select {} // the signal is on its way; go no further
	}
	// It reaches the other threads, and perhaps this one, only in a moment. Who went on until then
	// would not stand here, but somewhere behind.
	time.Sleep(200 * time.Millisecond) //nolint:forbidden // nothing tells a process that it is about to stop
}
