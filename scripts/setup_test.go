package scripts_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine is a folder that setup.sh takes for the whole system: the programs on its PATH are the ones put there, and
// its package manager is a script that writes down how it was called.
type machine struct {
	t    *testing.T
	root string
	bin  string
	env  []string // beside what every run gets
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, root: t.TempDir()}
	// The test cache only knows of files the test itself has looked at.
	_, err := os.Stat("setup.sh")
	require.NoError(t, err)
	m.bin = filepath.Join(m.root, "bin")
	require.NoError(t, os.MkdirAll(filepath.Join(m.root, "usr/sbin"), 0o755))
	for _, name := range []string{"bash", "chmod", "dirname", "env", "paste", "rm", "sed", "tee"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		m.program("bin/"+name, `exec `+path+` "$@"`)
	}
	m.program("bin/go", "exit 0")
	m.program("bin/id", "echo 0")
	m.program("bin/uname", "echo Linux")
	return m
}

func (m *machine) program(path, body string) {
	m.t.Helper()
	path = filepath.Join(m.root, path)
	require.NoError(m.t, os.MkdirAll(filepath.Dir(path), 0o755))
	// A process that another test forks meanwhile would have the file open for writing, too, until it runs its own
	// program, and a process that runs this one before would be told "text file busy".
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(m.t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755))
}

func (m *machine) postgres() {
	m.t.Helper()
	m.program("usr/lib/postgresql/15/bin/initdb", "exit 1")
	m.program("usr/lib/postgresql/15/bin/postgres", "exit 1")
}

func (m *machine) redis(version string) {
	m.t.Helper()
	m.program("bin/redis-server", "echo Redis server v="+version+" sha=0")
}

// apt adds a package manager that records each call, and whether services were held back during it, and then runs body.
func (m *machine) apt(body string) {
	m.t.Helper()
	m.program("bin/apt-get", `
held=free; [ -x "`+m.root+`/usr/sbin/policy-rc.d" ] && held=held
echo "$held $*" >>"`+m.root+`/apt.log"
`+body)
}

func (m *machine) aptCalls() []string {
	m.t.Helper()
	data, err := os.ReadFile(filepath.Join(m.root, "apt.log"))
	if os.IsNotExist(err) {
		return nil
	}
	require.NoError(m.t, err)
	return strings.Split(strings.TrimSpace(string(data)), "\n")
}

// setup runs the script on the machine and returns what it said.
func (m *machine) setup(args ...string) (output string, code int) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), filepath.Join(m.bin, "bash"), append([]string{"setup.sh"}, args...)...)
	cmd.Env = append([]string{"PATH=" + m.bin, "SETUP_ROOT=" + m.root}, m.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if _, isExit := err.(*exec.ExitError); !isExit { //nolint:errorlint // exec returns it unwrapped
		require.NoError(m.t, err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

const installsRedis = `case "$*" in *install*redis-server*)
	printf '#!/bin/sh\necho Redis server v=7.0.15 sha=0\n' >"$(dirname "$0")/redis-server"
	chmod 755 "$(dirname "$0")/redis-server"
esac`

func TestSetupIsSilentWhenEverythingIsThere(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.postgres()
	m.redis("7.0.15")
	m.apt("exit 1")

	output, code := m.setup()
	require.Equal(t, 0, code, output)
	require.Empty(t, output)
	require.Empty(t, m.aptCalls())
}

func TestSetupInstallsOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.postgres()
	m.apt(installsRedis)

	output, code := m.setup()
	require.Equal(t, 0, code, output)
	require.Contains(t, output, "not on this machine: redis-server. Installing")
	require.Contains(t, output, "installed: redis-server")
	require.Equal(t, []string{
		"held -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 update",
		"held -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install --no-install-recommends redis-server",
	}, m.aptCalls())
	require.NoFileExists(t, filepath.Join(m.root, "usr/sbin/policy-rc.d"), "services are allowed to start again")

	again, code := m.setup()
	require.Equal(t, 0, code, again)
	require.Empty(t, again, "a second run has nothing to do")
}

// The journeys through the web page may do without axe, but not where the browser is required.
func TestSetupInstallsNpmWhereTheBrowserIsRequired(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env   []string
		calls int
	}{
		"required":     {[]string{"OUTBOXCTL_REQUIRE_BROWSER=1"}, 2},
		"not required": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.postgres()
			m.redis("7.0.15")
			m.apt("")
			m.program("bin/rabbitmq-server", "")
			m.program("bin/pgbouncer", "")
			m.env = append(m.env, append(tc.env, "CHROMIUM=/usr/bin/true")...)

			output, code := m.setup("test")
			require.Equal(t, 0, code, output)
			require.Contains(t, output, "no npm here")
			calls := m.aptCalls()
			require.Len(t, calls, tc.calls)
			if tc.calls > 0 {
				require.Contains(t, calls[1], "install --no-install-recommends npm")
			}
		})
	}
}

// Only the tests need RabbitMQ, and only the pictures a Python that reaches PostgreSQL.
func TestSetupInstallsWhatAPurposeNeeds(t *testing.T) {
	t.Parallel()
	for purpose, tc := range map[string]struct{ needs, says string }{
		"test":     {"rabbitmq-server", "no RabbitMQ here"},
		"pictures": {"python3-psycopg2", "installed: python3-psycopg2"},
	} {
		t.Run(purpose, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.postgres()
			m.redis("7.0.15")
			m.apt("")
			m.env = append(m.env, "CHROMIUM=/usr/bin/true")
			output, code := m.setup()
			require.Equal(t, 0, code, output)
			require.Empty(t, m.aptCalls())
			output, code = m.setup(purpose)
			require.Equal(t, 0, code, output)
			require.Contains(t, m.aptCalls()[1], "install --no-install-recommends "+tc.needs)
			require.Contains(t, output, tc.says)
		})
	}
}

func TestSetupInstallsAlthoughUpdateFailed(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.postgres()
	m.apt(`case "$*" in *update) exit 100; esac; ` + installsRedis)

	output, code := m.setup()
	require.Equal(t, 0, code, output)
	require.Contains(t, output, "trying the install all the same")
}

func TestSetupLeavesAnExistingServicePolicyAlone(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.postgres()
	m.apt(installsRedis)
	m.program("usr/sbin/policy-rc.d", "exit 104")

	output, code := m.setup()
	require.Equal(t, 0, code, output)
	kept, err := os.ReadFile(filepath.Join(m.root, "usr/sbin/policy-rc.d"))
	require.NoError(t, err)
	require.Contains(t, string(kept), "exit 104")
}

func TestSetupSaysWhatStandsInTheWay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(m *machine)
		want    []string
	}{
		{
			name:    "no Go",
			prepare: func(m *machine) { require.NoError(m.t, os.Remove(filepath.Join(m.bin, "go"))) },
			want:    []string{"Go is not on PATH", "https://go.dev/doc/install"},
		},
		{
			name:    "a Go that cannot build the module",
			prepare: func(m *machine) { m.program("bin/go", `[ "$1" = version ] && echo go version go1.20; exit 1`) },
			want:    []string{"this Go cannot build the module: go version go1.20"},
		},
		{
			name: "macOS",
			prepare: func(m *machine) {
				m.program("bin/uname", "echo Darwin")
				m.apt("exit 0")
			},
			want: []string{"not on this machine: postgresql redis-server", "brew install postgresql@17 redis"},
		},
		{
			name: "no apt-get",
			prepare: func(m *machine) {
				require.NoError(m.t, os.MkdirAll(filepath.Join(m.root, "etc"), 0o755))
				require.NoError(m.t, os.WriteFile(filepath.Join(m.root, "etc/os-release"), []byte("NAME=F\nPRETTY_NAME=\"Fedora 44\"\n"), 0o600))
			},
			want: []string{"not on this machine: postgresql redis-server", "Fedora 44 has no apt-get"},
		},
		{
			name:    "the installation fails",
			prepare: func(m *machine) { m.apt(`case "$*" in *install*) exit 100; esac`) },
			want:    []string{"apt-get did not install postgresql redis-server"},
		},
		{
			name:    "the installation brings nothing",
			prepare: func(m *machine) { m.apt("exit 0") },
			want:    []string{"still not found after the installation: postgresql redis-server"},
		},
		{
			name: "neither root nor sudo",
			prepare: func(m *machine) {
				m.program("bin/id", "echo 1000")
				m.apt("exit 0")
			},
			want: []string{"installing packages needs root", "as root: apt-get install postgresql redis-server"},
		},
		{
			name: "sudo asks for a password without a terminal",
			prepare: func(m *machine) {
				m.program("bin/id", "echo 1000")
				m.program("bin/sudo", `[ "$1" = -n ] && exit 1; exit 0`)
				m.apt("exit 0")
			},
			want: []string{"sudo cannot run here without a password"},
		},
		{
			name: "a Redis that is too old",
			prepare: func(m *machine) {
				m.postgres()
				m.redis("6.0.16")
			},
			want: []string{"redis-server is version 6, and outboxctl needs 7 or newer"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			tt.prepare(m)

			output, code := m.setup()
			require.Equal(t, 1, code, output)
			for _, want := range tt.want {
				require.Equal(t, 1, strings.Count(output, want), "%q once in:\n%s", want, output)
			}
			require.NoFileExists(t, filepath.Join(m.root, "usr/sbin/policy-rc.d"))
		})
	}
}
