package devstack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// RedisParams describes how to start a private Redis.
type RedisParams struct {
	// Dir is the state folder; the server works in its subfolder "redis". Nothing is kept over a
	// restart.
	Dir string
	// Port to listen on; 0 picks a free one. With AnyPort a free one also does when Port is taken.
	Port    int
	AnyPort bool
	// InProcess takes the in-process server even where redis-server is installed.
	InProcess bool
	// Settings are added to redis-server's command line; the in-process server has none.
	Settings map[string]string
	// Log receives a line for each surprising step. May be nil.
	Log io.Writer
}

// Redis is a running server that asks for a password: redis-server where it is installed, otherwise
// one inside this process that knows the commands outboxctl uses. Its data dies with it.
type Redis struct {
	server
	// Kind names it, as in "redis-server 7.0.15" or "in-process".
	Kind string

	params    RedisParams
	password  string
	version   string // of the installed program
	path, dir string // where it is, and where it works
	owner     *owner
}

// StartRedis starts a server and returns when it answers.
func StartRedis(ctx context.Context, params RedisParams) (_ *Redis, err error) {
	if params.Log == nil {
		params.Log = io.Discard
	}
	r := &Redis{Kind: "in-process", params: params, password: rand.Text()}
	r.server = server{
		name: "the in-process Redis", wanted: params.Port, any: params.AnyPort, run: r.runInProcess,
	}
	if r.path, err = exec.LookPath("redis-server"); err == nil && !params.InProcess {
		r.name, r.run = "redis-server", r.runProgram
		r.stop = []endStep{{syscall.SIGTERM, 3 * time.Second}}
		if err := r.prepare(ctx); err != nil {
			return nil, err
		}
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	if r.version != "" {
		r.Kind = "redis-server " + r.version
	}
	return r, nil
}

// URL returns the connection string of database 0, password included.
func (r *Redis) URL() string { return "redis://:" + r.password + "@" + address(r.bound) + "/0" }

// Pause freezes the server: connections stay open and nothing answers. The in-process server cannot
// do it and returns errors.ErrUnsupported.
func (r *Redis) Pause() error { return r.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (r *Redis) Resume() error { return r.signal(syscall.SIGCONT) }

func (r *Redis) signal(sig os.Signal) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process.signal(sig)
}

// memoryRedis runs in this process.
type memoryRedis struct{ *miniredis.Miniredis }

func (r *Redis) runInProcess(_ context.Context, port int) (process, error) {
	memory := memoryRedis{miniredis.NewMiniRedis()}
	memory.ClockTTL(true) // without it a TTL never runs out
	memory.RequireAuth(r.password)
	if err := memory.StartAddr(address(port)); err != nil {
		return nil, fmt.Errorf("%w: %w", errPortTaken, err)
	}
	return memory, nil
}

func (m memoryRedis) end(context.Context, ...endStep) error {
	m.Close()
	return nil
}

func (memoryRedis) signal(os.Signal) error {
	return fmt.Errorf("pause the in-process Redis: %w", errors.ErrUnsupported)
}

func (memoryRedis) ended() <-chan struct{} { return nil }

// prepare makes the server's folder and ends a server left there by an earlier run.
func (r *Redis) prepare(ctx context.Context) (err error) {
	if r.params.Dir, err = filepath.Abs(r.params.Dir); err != nil {
		return fmt.Errorf("resolve state folder: %w", err)
	}
	if r.owner, err = serverOwner(); err != nil {
		return err
	}
	if r.dir, err = r.owner.makeDir(r.params.Dir, "redis"); err != nil {
		return err
	}
	if err := endLeftover(ctx, r.file("redis.pid"), r.dir, r.params.Log); err != nil {
		return err
	}
	// In a file, because every user of this machine may read a command line.
	return r.owner.writeSecret(r.file("redis.conf"), "requirepass "+r.password+"\n")
}

func (r *Redis) file(name string) string { return filepath.Join(r.dir, name) }

func (r *Redis) runProgram(ctx context.Context, port int) (process, error) {
	args := []string{
		r.file("redis.conf"), "--bind", loopback, "--port", strconv.Itoa(port), "--dir", r.dir,
		"--pidfile", r.file("redis.pid"), "--save", "", "--appendonly", "no", "--daemonize", "no",
	}
	for _, name := range slices.Sorted(maps.Keys(r.params.Settings)) {
		args = append(args, "--"+name, r.params.Settings[name])
	}
	c, err := startLogged(ctx, childSpec{
		path: r.path, args: args, dir: r.dir, owner: r.owner, orphanSignal: syscall.SIGKILL,
	}, filepath.Join(r.params.Dir, "redis.log"), func(c *child) bool {
		info, err := redisInfo(port, r.password)
		r.version = infoField(info, "redis_version")
		return err == nil && infoField(info, "process_id") == strconv.Itoa(c.process.Pid)
	})
	if err != nil {
		_ = os.Remove(r.file("redis.pid")) // killed, it could not do that itself
		return nil, err
	}
	return c, nil
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
