package cmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"
)

// Config is everything that can be set, read once from flags, environment, file and defaults.
type Config struct {
	Database struct {
		URL      string
		ExecMode string
	}
	Redis  struct{ URL string }
	PubSub struct {
		Project      string
		Emulator     string
		Topics       map[string]string // logical name to physical name
		Subscription string
	}
	Publish struct {
		BatchSize       int
		PollInterval    time.Duration
		MaxAttempts     int
		Lease           time.Duration
		PublishTimeout  time.Duration
		BackoffBase     time.Duration
		BackoffMax      time.Duration
		Workers         int
		ShutdownTimeout time.Duration
		Wake            string
		HTTPAddr        string
	}
	Consume     struct{ HTTPAddr string }
	Idempotency struct{ TTL time.Duration }
	Log         struct{ Level, Format string }
	Dev         struct{ StateDir string }

	values []configValue
}

// A configValue is a key's text and the place it came from.
type configValue struct {
	key    configKey
	raw    string
	origin string
	set    bool
}

const (
	originDefault = "default"
	originDev     = "dev stack"
)

// origin tells where a key's value came from.
func (c *Config) origin(name string) string {
	for _, v := range c.values {
		if v.key.name == name {
			return v.origin
		}
	}
	return ""
}

// A configError is every problem of the configuration at once.
type configError struct{ problems []string }

func (e *configError) Error() string {
	if len(e.problems) == 1 {
		return "configuration: " + e.problems[0]
	}
	return fmt.Sprintf("configuration: %d problems\n  - %s", len(e.problems), strings.Join(e.problems, "\n  - "))
}

func (e *configError) ExitCode() int { return exitUsage }

// flagConfig is the flag that names the configuration file.
const flagConfig = "config"

// addConfigFlags registers the flags of a group. They stay text until the configuration is read, so that all
// problems are reported together.
func addConfigFlags(cmd *cobra.Command, group flagGroup) {
	flags := cmd.Flags()
	if group == groupGlobal {
		flags = cmd.PersistentFlags()
		flags.Var(&textFlag{kind: "file"}, flagConfig, "configuration file (default outboxctl.yaml here, then in the user's configuration folder)")
	}
	for _, k := range configKeys() {
		if k.flag != "" && k.in(group) && flags.Lookup(k.flag) == nil {
			flags.Var(&textFlag{text: k.def, kind: k.kind}, k.flag, k.help)
		}
	}
}

// textFlag is a flag that takes any text.
type textFlag struct{ text, kind string }

func (f *textFlag) String() string        { return f.text }
func (f *textFlag) Set(text string) error { f.text = text; return nil }
func (f *textFlag) Type() string          { return f.kind }

// loadConfig resolves every key: flag, environment, file, running dev stack, default. It always returns a Config; the
// problems name what could not be read.
func loadConfig(src configSource) (*Config, []string) {
	file, problems := readConfigFile(src)
	cfg := &Config{}
	for _, k := range configKeys() {
		cfg.values = append(cfg.values, resolve(k, src, file))
	}
	useDevStack(cfg, src)
	for _, v := range cfg.values {
		if !v.set {
			continue
		}
		if err := v.key.set(cfg, v.raw); err != nil {
			problems = append(problems, fmt.Sprintf("%s (%s): %v", v.key.name, v.origin, err))
		}
	}
	return cfg, append(problems, checkTogether(cfg, problems)...)
}

// configSource is where values may come from.
type configSource struct {
	flag func(name string) (text string, changed bool)
	env  map[string]string
	// discover finds the settings of a running embedded stack.
	discover func(stateDir string) (map[string]string, bool)
}

func resolve(k configKey, src configSource, file *viper.Viper) configValue {
	if k.flag != "" {
		if text, changed := src.flag(k.flag); changed {
			return configValue{k, text, "flag --" + k.flag, true}
		}
	}
	for _, name := range append([]envAlias{{name: k.env()}}, k.aliases...) {
		if text, ok := src.env[name.name]; ok && (text != "" || k.emptyCounts) {
			return configValue{k, withUnit(text, name.unit), "env " + name.name, true}
		}
	}
	if file != nil && file.InConfig(k.name) {
		return configValue{k, fmt.Sprint(file.Get(k.name)), "file " + file.ConfigFileUsed(), true}
	}
	return configValue{k, k.def, originDefault, k.def != ""}
}

// withUnit gives a bare number the unit its variable's name promises.
func withUnit(text, unit string) string {
	if unit != "" && text != "" && strings.Trim(text, "0123456789") == "" {
		return text + unit
	}
	return text
}

// useDevStack takes the servers of a running embedded stack, but only when none of them was configured: half of a
// production configuration must never be completed with a laptop's servers.
func useDevStack(cfg *Config, src configSource) {
	servers := []string{"database.url", "redis.url", "pubsub.project", "pubsub.emulator"}
	stateDir := ""
	for _, v := range cfg.values {
		if v.key.name == "dev.state_dir" {
			stateDir = v.raw
		}
		if slices.Contains(servers, v.key.name) && v.origin != originDefault {
			return
		}
	}
	if src.discover == nil {
		return
	}
	found, ok := src.discover(stateDir)
	if !ok {
		return
	}
	for i, v := range cfg.values {
		if text, ok := found[v.key.name]; ok && slices.Contains(servers, v.key.name) {
			cfg.values[i].raw, cfg.values[i].origin, cfg.values[i].set = text, originDev, true
		}
	}
}

// readConfigFile reads the file that was named, or the first of the usual ones that exists. A key nobody knows is a
// problem: it is a typing error that would otherwise be ignored for years.
func readConfigFile(src configSource) (*viper.Viper, []string) {
	path, named := src.flag(flagConfig)
	if !named {
		path, named = src.env["OUTBOXCTL_CONFIG"], src.env["OUTBOXCTL_CONFIG"] != ""
	}
	if !named {
		if path = usualConfigFile(src.env); path == "" {
			return nil, nil
		}
	}
	file := viper.New()
	file.SetConfigFile(path)
	if err := file.ReadInConfig(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, []string{fmt.Sprintf("configuration file %s does not exist", path)}
		}
		return nil, []string{fmt.Sprintf("configuration file %s: %v", path, err)}
	}
	var problems []string
	known := configKeys()
	keys := file.AllKeys()
	slices.Sort(keys)
	for _, name := range keys {
		if !slices.ContainsFunc(known, func(k configKey) bool { return k.name == name }) {
			problems = append(problems, fmt.Sprintf("%s (file %s): no such setting", name, path))
		}
	}
	return file, problems
}

func usualConfigFile(env map[string]string) string {
	candidates := []string{"outboxctl.yaml"}
	switch {
	case env["XDG_CONFIG_HOME"] != "":
		candidates = append(candidates, filepath.Join(env["XDG_CONFIG_HOME"], "outboxctl", "config.yaml"))
	case env["HOME"] != "":
		candidates = append(candidates, filepath.Join(env["HOME"], ".config", "outboxctl", "config.yaml"))
	}
	for _, path := range candidates {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return path
		}
	}
	return ""
}

// checkTogether finds values that are fine alone and wrong together. It keeps silent about values that could not be
// read, since their problem is known already.
func checkTogether(cfg *Config, known []string) []string {
	if len(known) > 0 {
		return nil
	}
	var problems []string
	p := cfg.Publish
	if p.Lease <= p.PublishTimeout {
		problems = append(problems, fmt.Sprintf(
			"publish.lease (%s) must be longer than publish.publish_timeout (%s): a publish may still land when its time-out has passed",
			p.Lease, p.PublishTimeout))
	}
	if p.BackoffBase > p.BackoffMax {
		problems = append(problems, fmt.Sprintf("publish.backoff_base (%s) is longer than publish.backoff_max (%s)", p.BackoffBase, p.BackoffMax))
	}
	return problems
}
