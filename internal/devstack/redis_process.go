package devstack

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processRedis runs redis-server.
type processRedis struct {
	path     string
	stateDir string
	log      io.Writer
	settings map[string]string
	password string

	owner   *owner
	dir     string
	version string
	choice  portChoice
	child   *child
}

// prepare makes the server's folder and ends a server left there by an earlier run.
func (r *processRedis) prepare(ctx context.Context) error {
	var err error
	if r.owner, err = serverOwner(); err != nil {
		return err
	}
	if r.dir, err = r.owner.makeDir(r.stateDir, "redis"); err != nil {
		return err
	}
	if err := endLeftover(ctx, r.pidFile(), r.dir, r.log); err != nil {
		return err
	}
	// In a file, because every user of this machine may read a command line.
	return r.owner.writeSecret(r.configFile(), "requirepass "+r.password+"\n")
}

func (r *processRedis) pidFile() string    { return filepath.Join(r.dir, "redis.pid") }
func (r *processRedis) configFile() string { return filepath.Join(r.dir, "redis.conf") }
func (r *processRedis) logPath() string    { return filepath.Join(r.stateDir, "redis.log") }
func (r *processRedis) port() int          { return r.choice.bound }

func (r *processRedis) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redisStartTimeout)
	defer cancel()
	if err := r.choice.start(func(port int) error { return r.run(ctx, port) }); err != nil {
		return fmt.Errorf("start redis-server: %w", err)
	}
	return nil
}

func (r *processRedis) run(ctx context.Context, port int) error {
	c, err := startLogged(ctx, childSpec{
		path: r.path, args: r.arguments(port), dir: r.dir, owner: r.owner, orphanSignal: syscall.SIGKILL,
	}, r.logPath(), func(c *child) bool {
		info, err := redisInfo(port, r.password)
		r.version = infoField(info, "redis_version")
		return err == nil && infoField(info, "process_id") == strconv.Itoa(c.process.Pid)
	})
	if err != nil {
		_ = os.Remove(r.pidFile()) // killed, it could not do that itself
		return err
	}
	r.child = c
	return nil
}

func (r *processRedis) arguments(port int) []string {
	args := []string{
		r.configFile(), "--bind", loopback, "--port", strconv.Itoa(port), "--dir", r.dir, "--pidfile", r.pidFile(),
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}
	for _, name := range slices.Sorted(maps.Keys(r.settings)) {
		args = append(args, "--"+name, r.settings[name])
	}
	return args
}

// redisInfo speaks to the server directly: the client library would log every refused connection of
// a server that is starting.
func redisInfo(port int, password string) (string, error) {
	conn, err := net.DialTimeout("tcp", address(port), time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	// QUIT closes the connection, which ends the reply.
	if _, err := io.WriteString(conn, "AUTH "+password+"\r\nINFO server\r\nQUIT\r\n"); err != nil {
		return "", err
	}
	reply, err := io.ReadAll(conn)
	return string(reply), err
}

func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (r *processRedis) stop(ctx context.Context) error {
	if ctx.Err() != nil {
		return r.child.end(ctx)
	}
	return r.child.end(ctx, endStep{syscall.SIGTERM, redisStopPatience})
}

func (r *processRedis) pause() error  { return r.child.signal(syscall.SIGSTOP) }
func (r *processRedis) resume() error { return r.child.signal(syscall.SIGCONT) }

func (r *processRedis) done() <-chan struct{} { return r.child.done }
