package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/internal/failpoint"
	"github.com/outboxctl/outboxctl/lab/history"
	"github.com/outboxctl/outboxctl/lab/rig"
)

// matured is how long a process must have lived for its end to be its own fault: one that starts
// while its database is away may say so and end, as its platform starts it again.
const matured = 10 * time.Second

// restartPause is the platform's pause before it starts a process again.
const restartPause = 200 * time.Millisecond

// process is a program that is started again whenever it ends, until it is told to stay down.
type process struct {
	name string
	args []string
	env  []string
	log  *os.File
	rec  *history.Recorder

	mu      sync.Mutex
	now     *rig.Child    // the present instance
	done    chan struct{} // closed when its end was noted
	arm     string        // failpoint of the next instance
	asked   bool          // the present instance was told to end
	crashes int           // how many instances died in their failpoint
	down    bool
	stopped chan struct{} // closed when it stays down
}

// startProcess starts a supervised process that writes to a log of its own.
func startProcess(rec *history.Recorder, dir, name string, env []string, args ...string) *process {
	log := rig.Must(os.Create(dir + "/" + name + ".log"))
	p := &process{name: name, args: args, env: env, log: log, rec: rec, stopped: make(chan struct{})}
	rig.Check(p.start())
	go p.supervise()
	return p
}

// errDown is the error of a process that was told to stay down.
var errDown = errors.New("down for good")

func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return errDown
	}
	cmd := exec.Command(p.args[0], p.args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, p.log, p.log
	if p.arm != "" {
		cmd.Env = append(append([]string{}, p.env...), failpoint.Env+"="+p.arm)
	}
	child, err := rig.Start(cmd)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.now, p.done, p.asked = child, make(chan struct{}), false
	p.rec.Add(history.Process{At: time.Now(), Name: p.name, PID: child.PID(), Event: "started",
		Failpoint: pointOf(p.arm)})
	return nil
}

// supervise waits for an instance and starts the next.
func (p *process) supervise() {
	defer close(p.stopped)
	for {
		began := time.Now()
		p.mu.Lock()
		child, done, armed := p.now, p.done, p.arm
		p.mu.Unlock()
		<-child.Done
		p.mu.Lock()
		if p.asked {
			armed = "" // we were quicker than the failpoint
		}
		crashed := armed != "" && child.Killed()
		p.rec.Add(history.Process{
			At: time.Now(), Name: p.name, PID: child.PID(), Event: "exited", Exit: child.Exit(), Failpoint: pointOf(armed),
			Unexpected: !p.asked && !crashed && time.Since(began) > matured,
		})
		p.arm = ""
		if crashed {
			p.crashes++
		}
		close(done)
		p.mu.Unlock()
		time.Sleep(restartPause) //nolint:forbidden // a platform's pause before a restart is a pause
		if err := p.start(); err != nil {
			if !errors.Is(err, errDown) {
				p.note(err)
			}
			return
		}
	}
}

// note records an end that nobody asked for.
func (p *process) note(err error) {
	p.rec.Add(history.Process{At: time.Now(), Name: p.name, Event: "exited", Exit: err.Error(), Unexpected: true})
}

// signal sends a signal that may end the process.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if sig == syscall.SIGKILL || sig == syscall.SIGTERM {
		p.asked = true
	}
	p.now.Signal(sig)
}

// armNext kills the present instance and has the next one meet a failpoint. The channel it returns
// is closed when that instance has ended.
func (p *process) armNext(ctx context.Context, spec string) (<-chan struct{}, error) {
	last, err := p.kill(ctx)
	if err != nil {
		return nil, err
	}
	// The supervisor is in its pause, or has just begun it.
	p.mu.Lock()
	p.arm = spec
	p.mu.Unlock()
	var done chan struct{}
	err = rig.Eventually(ctx, reach, func() bool {
		var next *rig.Child
		next, done = p.present()
		return next != last
	})
	return done, err
}

// present is the instance that runs now, and what is closed when its end was noted.
func (p *process) present() (*rig.Child, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.done
}

// crashed is how many instances died in their failpoint so far.
func (p *process) crashed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashes
}

// kill ends the present instance, waits for its end and returns it.
func (p *process) kill(ctx context.Context) (*rig.Child, error) {
	killed, done := p.present()
	p.signal(syscall.SIGKILL)
	if err := rig.Within(ctx, done, 10*time.Second); err != nil {
		return nil, fmt.Errorf("end %s (%d): %w", p.name, killed.PID(), err)
	}
	return killed, nil
}

// stop ends the process for good. Within patience it may end by itself.
func (p *process) stop(ctx context.Context, patience time.Duration) error {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGTERM)
	defer func() { _ = p.log.Close() }()
	if rig.Within(ctx, p.stopped, patience) == nil {
		return nil
	}
	p.signal(syscall.SIGKILL)
	<-p.stopped
	return fmt.Errorf("%s had to be killed", p.name)
}

// pointOf is the failpoint a process is to die in, if any: one that it only stops in is not.
func pointOf(spec string) string {
	name, rest, _ := strings.Cut(spec, ":")
	if !strings.HasPrefix(rest, "crash:") {
		return ""
	}
	return name
}
