package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// The files that people deploy, but those for Kubernetes (tools/chart): what can be wrong with
// them without a dyno or a machine to boot.

func repositoryFile(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(content)
}

// Each command line in a deployed file is one that this program understands.
func TestDeployedCommandLines(t *testing.T) {
	t.Parallel()
	lines := map[string][]string{}
	add := func(source, line string) {
		lines[source+": "+line] = strings.Fields(strings.ReplaceAll(line, `""`, "off"))
	}
	for _, name := range []string{
		"Procfile", "heroku.yml", "deploy/cron/outboxctl", "deploy/systemd/outboxctl-publish@.service", "deploy/systemd/outboxctl-cleanup@.service",
	} {
		commands := regexp.MustCompile(`\boutboxctl ((?:cleanup|check|migrate|publish|ui)\b[^>)|\n]*)`)
		var code []string
		for line := range strings.Lines(repositoryFile(t, name)) {
			if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "Description") {
				code = append(code, line)
			}
		}
		found := commands.FindAllStringSubmatch(strings.Join(code, ""), -1)
		require.NotEmpty(t, found, name)
		for _, match := range found {
			add(name, strings.TrimSuffix(strings.TrimSpace(match[1]), "2"))
		}
	}
	require.GreaterOrEqual(t, len(lines), 7)
	for source, words := range lines {
		root := newRootCmd(cli.NewApp(cli.Streams{}, nil))
		command, rest, err := root.Find(words)
		require.NoError(t, err, source)
		require.NotEqual(t, root, command, source)
		require.NoError(t, command.ParseFlags(rest), source)
		require.Empty(t, command.Flags().Args(), source)
	}
}

// The nightly unit runs with the same rights to the database as the publisher and is no less exposed.
func TestTheCleanupUnitIsAsProtectedAsThePublishers(t *testing.T) {
	t.Parallel()
	protections := func(name string) []string {
		_, service, found := strings.Cut(repositoryFile(t, "deploy/systemd/"+name), "[Service]")
		require.True(t, found)
		service, _, _ = strings.Cut(service, "[Install]")
		_, protected, found := strings.Cut(service, "\n\n")
		require.True(t, found)
		return strings.Fields(protected)
	}
	want := protections("outboxctl-publish@.service")
	require.Contains(t, want, "NoNewPrivileges=yes")
	require.Equal(t, want, protections("outboxctl-cleanup@.service"))
}

// What check says when it is not OK reaches the log; what it says when it is does not.
func TestCronLogsWhatTheCheckSaid(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ \S+ outboxctl (.*outboxctl check.*)$`).FindStringSubmatch(repositoryFile(t, "deploy/cron/outboxctl"))
	require.NotNil(t, line)
	require.NotContains(t, line[1], "%", "cron takes it for the end of the line")
	command := strings.ReplaceAll(line[1], "/etc/outboxctl/*.env", "/dev/null")
	for _, c := range []struct{ check, want string }{
		{`echo "OUTBOX CRITICAL - oldest 12m"; return 2`, "/dev/null: OUTBOX CRITICAL - oldest 12m\n"},
		{`echo "connect to the database: refused" >&2; return 3`, "/dev/null: connect to the database: refused\n"},
		{`echo "OUTBOX OK"`, ""},
	} {
		script := "outboxctl() { " + c.check + "; }; logger() { cat; }; " + command
		out, err := exec.CommandContext(t.Context(), "sh", "-c", script).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, c.want, string(out))
	}
}

// Heroku runs its commands with the image's shell, or hands them to its ENTRYPOINT.
func TestHerokusImageHasAShell(t *testing.T) {
	t.Parallel()
	var config struct {
		Build struct {
			Docker map[string]string `json:"docker"`
		} `json:"build"`
		Release struct {
			Image string `json:"image"`
		} `json:"release"`
		Run map[string]string `json:"run"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(repositoryFile(t, "heroku.yml")), &config))
	require.Contains(t, config.Build.Docker, config.Release.Image)
	for process := range config.Run {
		dockerfile := repositoryFile(t, config.Build.Docker[process])
		last := dockerfile[strings.LastIndex(dockerfile, "\nFROM "):]
		require.NotRegexp(t, `^\nFROM (scratch|\S*distroless)`, last)
		require.NotContains(t, last, "ENTRYPOINT")
		require.Regexp(t, `(?m)^COPY .* /usr/local/bin/outboxctl$`, last)
	}
}
