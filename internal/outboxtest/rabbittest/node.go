// Package rabbittest runs a RabbitMQ node of its own for the tests of a package, and the
// conformance suite of publishers on it. The node is the distribution's (rabbitmq-server); where
// that is not installed tests are skipped, unless OUTBOXCTL_REQUIRE_RABBITMQ is set.
package rabbittest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/devstack"
)

// The accounts of a node. Limited may do nothing but connect.
const (
	Admin   = "outbox:outbox"
	Limited = "limited:limited"
)

// maxMessageSize is what the node takes: a little more than the publisher's limit.
const maxMessageSize = 17 << 20

// Node is one that belongs to the tests of a package.
type Node struct {
	dir        string
	port, epmd int
	account    *syscall.Credential // nil: ourselves
	server     *exec.Cmd
	names      *exec.Cmd
	absent     string // why there is none
}

// Run starts a node for the tests of m, which find it in node, and ends it behind them.
func Run(m interface{ Run() int }, node **Node) (code int) {
	var err error
	if *node, err = Start(); err == nil {
		code = m.Run()
		err = (*node).Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "rabbittest:", err)
		code = max(code, 1)
	}
	return code
}

// Start starts a node. Without an installation it returns one that skips.
func Start() (n *Node, err error) {
	n = &Node{}
	program := find()
	if program == "" {
		n.absent = "rabbitmq-server is not installed"
		return n, nil
	}
	if n.dir, err = os.MkdirTemp("", "outboxctl-rabbitmq-"); err != nil {
		return nil, err
	}
	if err := n.own(); err != nil {
		return nil, err
	}
	if n.port, err = devstack.FreePort(); err == nil {
		n.epmd, err = devstack.FreePort()
	}
	if err != nil {
		return nil, err
	}
	if err := n.configure(); err != nil {
		return nil, err
	}
	// The node would leave a daemon behind for the names of nodes: it gets one of its own.
	if n.names, err = n.run("epmd", "-port", strconv.Itoa(n.epmd),
		"-relaxed_command_check"); err != nil {
		return nil, err
	}
	if n.server, err = n.run(program); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	if err := n.untilUp(); err != nil {
		return nil, errors.Join(err, n.Stop())
	}
	return n, nil
}

// find looks where Debian, Homebrew and plain archives put it. Debian's script on PATH would change
// the account by itself.
func find() string {
	list, _ := filepath.Glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server")
	if len(list) > 0 {
		return slices.Max(list)
	}
	path, _ := exec.LookPath("rabbitmq-server")
	return path
}

// Installed reports whether a node can be started here.
func Installed() bool { return find() != "" }

// own gives the folder to an account without rights where we are root.
func (n *Node) own() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"rabbitmq", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		n.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return os.Chown(n.dir, uid, gid)
	}
	return errors.New("find an account without rights: neither rabbitmq nor nobody exists")
}

func (n *Node) configure() error {
	rights := `{"user":"outbox","vhost":"/","configure":".*","write":".*","read":".*"},{"user":"limited","vhost":"/","configure":"^$","write":"^$","read":"^$"}`
	for name, content := range map[string]string{
		"rabbitmq.conf": fmt.Sprintf("load_definitions = %s/definitions.json\nmax_message_size = %d\nloopback_users = none\n", n.dir, maxMessageSize),
		"definitions.json": `{"vhosts":[{"name":"/"}],"users":[{"name":"outbox","password":"outbox","tags":"administrator"},` +
			`{"name":"limited","password":"limited","tags":""}],"permissions":[` + rights + `]}`,
		"enabled_plugins": "[].\n",
	} {
		if err := os.WriteFile(filepath.Join(n.dir, name), []byte(content), 0o644); err != nil { // another account reads it
			return err
		}
	}
	return nil
}

func (n *Node) run(program string, args ...string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(n.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the child has its own
	dist, err := devstack.FreePort()
	if err != nil {
		return nil, err
	}
	// A process that dies without Stop, as a test that panics, leaves nothing behind: the pipe ends
	// with it.
	const follow = `exec 3<&0; (cat <&3 >/dev/null; kill -TERM 0) & exec "$0" "$@" </dev/null`
	cmd := exec.Command("sh", append([]string{"-c", follow, program}, args...)...)
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: n.account}
	in := func(name string) string { return filepath.Join(n.dir, name) }
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "LANG=C.UTF-8", "ERL_EPMD_PORT=" + strconv.Itoa(n.epmd), "ERL_EPMD_ADDRESS=127.0.0.1",
		fmt.Sprintf("RABBITMQ_NODENAME=outboxctl-%d@localhost",
			os.Getpid()), "RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_NODE_PORT=" + strconv.Itoa(n.port), "RABBITMQ_DIST_PORT=" + strconv.Itoa(dist), "RABBITMQ_LOGS=-",
		"RABBITMQ_MNESIA_BASE=" + in("data"), "RABBITMQ_LOG_BASE=" + in("logs"), "RABBITMQ_ENABLED_PLUGINS_FILE=" + in("enabled_plugins"),
		"RABBITMQ_CONFIG_FILE=" + in("rabbitmq"), "RABBITMQ_CONF_ENV_FILE=/dev/null", "RABBITMQ_PID_FILE=" + in("pid"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none", "RABBITMQ_GENERATED_CONFIG_DIR=" + in("generated"), "RABBITMQ_ADVANCED_CONFIG_FILE=" + in("advanced.config"),
	}
	return cmd, cmd.Start()
}

// untilUp waits until the node takes connections.
func (n *Node) untilUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		conn, err := amqp.Dial(n.URL(Admin))
		if err == nil {
			tick.Stop()
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
			return fmt.Errorf("the node did not start: %w\n%s", err, bytes.TrimSpace(log))
		}
	}
}

// Stop ends the node and removes its folder.
func (n *Node) Stop() error {
	for _, cmd := range []*exec.Cmd{n.server, n.names} {
		if cmd != nil {
			// Asked politely, a node whose queue never came up waits for it for ever.
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait() // it ends by the signal
		}
	}
	return os.RemoveAll(n.dir)
}

// Need skips a test where there is no node.
func (n *Node) Need(t testing.TB) {
	t.Helper()
	switch {
	case n.absent == "":
	case os.Getenv("OUTBOXCTL_REQUIRE_RABBITMQ") != "":
		t.Fatal(n.absent)
	default:
		t.Skip(n.absent + ": scripts/setup.sh test installs it")
	}
}

// Addr is where the node listens.
func (n *Node) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.port)) }

// URL is the node's for an account.
func (n *Node) URL(account string) string { return "amqp://" + account + "@" + n.Addr() + "/" }

// Channel is one beside what is tested.
func (n *Node) Channel(t testing.TB) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(n.URL(Admin))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	require.NoError(t, err)
	return ch
}

// Absent is why there is no node; empty where there is one.
func (n *Node) Absent() string { return n.absent }

// Control runs rabbitmqctl on the node.
func (n *Node) Control(t testing.TB, args ...string) {
	t.Helper()
	ctl, err := n.run(filepath.Join(filepath.Dir(find()), "rabbitmqctl"), args...)
	require.NoError(t, err)
	if err := ctl.Wait(); err != nil {
		log, _ := os.ReadFile(filepath.Join(n.dir, "log"))
		t.Fatalf("rabbitmqctl %v: %v\n%s", args, err, log)
	}
}
