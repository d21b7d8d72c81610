package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/signin/way"
)

// Config is everything that can be set, read once from flags, environment, file and defaults.
type Config struct {
	Catalogue string
	Database  struct {
		URL      string
		ExecMode string
		// ReadTimeout bounds a statement that reads.
		ReadTimeout time.Duration
	}
	Redis struct{ URL string }
	// Broker is the name of a kind; its settings are read by Value.
	Broker  string
	Topics  map[string]string // logical name to physical name
	Publish struct {
		dispatch.Tuning
		Wake         string
		LogPublished bool
		HTTPAddr     string
	}
	Consume     struct{ HTTPAddr string }
	Idempotency struct{ TTL time.Duration }
	Log         struct{ Level, Format string }
	Dev         struct{ StateDir string }
	UI          UIConfig

	Values []ConfigValue
	// Context is the one that applies; nil when none does. Contexts are all that the file has.
	Context  *Context
	Contexts []Context
	// File is the configuration file that was read.
	File string
	// noContext: one was asked for, and not found.
	noContext bool
}

// UIConfig is what the web page is configured by.
type UIConfig struct {
	way.Settings
	TraceURL     string
	Label        string
	Color        string
	ReadRole     string
	ReadURL      string
	Refresh      time.Duration
	QueryTimeout time.Duration
	MaxPlanRows  int
}

// A ConfigValue is a key's text and the place it came from.
type ConfigValue struct {
	Key    Setting
	Raw    string
	Origin string
	set    bool
}

const (
	OriginDefault = "default"
	OriginDev     = "dev stack"
)

// Value returns a setting as it was written, by its whole name.
func (c *Config) Value(name string) string { return c.value(name).Raw }

// Origin returns where a key's value came from.
func (c *Config) Origin(name string) string { return c.value(name).Origin }

// value finds a setting by its whole name; an empty one where there is none.
func (c *Config) value(name string) *ConfigValue {
	for i := range c.Values {
		if c.Values[i].Key.Name == name {
			return &c.Values[i]
		}
	}
	return &ConfigValue{}
}

// ConfigProblems is the error that names every problem of the configuration at once.
func ConfigProblems(problems ...string) error {
	if len(problems) == 1 {
		return fault.Usagef("configuration: %s", problems[0])
	}
	return fault.Usagef("configuration: %d problems\n  - %s", len(problems), strings.Join(problems, "\n  - "))
}

// FlagConfig is the flag that names the configuration file.
const FlagConfig = "config"

// AddConfigFlags registers the flags of a group. They stay text until the configuration is read, so
// that all problems are reported together.
func (a *App) AddConfigFlags(cmd *cobra.Command, group FlagGroup) {
	flags := cmd.Flags()
	if group == GroupGlobal {
		flags = cmd.PersistentFlags()
		flags.Var(&textFlag{kind: "name"}, FlagContext, "use the servers of this context of the configuration file")
		flags.Var(&textFlag{kind: "file"}, FlagConfig, "configuration file (default outboxctl.yaml here, then in the user's configuration folder)")
	}
	for _, k := range a.AllSettings() {
		if k.Flag == "" || !k.isIn(group) {
			continue
		}
		if flags.Lookup(k.Flag) == nil {
			flags.Var(&textFlag{text: k.Def, kind: k.Kind}, k.Flag, k.Help)
		}
		f := flags.Lookup(k.Flag)
		if k.Kind == kindBool {
			f.NoOptDefVal = "true"
		}
		if text, ok := f.Value.(*textFlag); ok {
			text.keys = append(text.keys, k.Name)
		}
	}
}

// textFlag is a flag that takes any text, for some settings.
type textFlag struct {
	text, kind string
	keys       []string
}

func (f *textFlag) String() string        { return f.text }
func (f *textFlag) Set(text string) error { f.text = text; return nil }
func (f *textFlag) Type() string          { return f.kind }

// LoadConfig resolves every key: flag, environment, file, running dev stack, default. It always
// returns a Config; the problems name what could not be read.
func LoadConfig(src ConfigSource) (*Config, []string) {
	file, problems := readConfigFile(src)
	chosen, unknown := file.choose(src)
	problems = append(problems, unknown...)
	cfg := &Config{Context: chosen, Contexts: file.contexts, File: file.path, noContext: len(unknown) > 0}
	servers := ServerKeys()
	for _, k := range append(cfg.settings(), cfg.otherTopics(src, file)...) {
		cfg.Values = append(cfg.Values, resolve(k, src, file, chosen, servers))
	}
	useDevStack(cfg, src, servers)
	problems = append(problems, cfg.chooseBroker()...)
	for _, v := range cfg.Values {
		if !v.set {
			continue
		}
		if err := v.Key.set(v.Raw); err != nil {
			problems = append(problems, fmt.Sprintf("%s (%s): %v", v.Key.Name, v.Origin, err))
		}
	}
	cfg.fitTimes()
	return cfg, append(problems, checkTogether(cfg, problems)...)
}

// ConfigSource is where values may come from.
type ConfigSource struct {
	Flag func(name string) (text string, changed bool)
	// sets reports whether a flag of the command sets this key: another command's may have the same
	// name. Nil: it does.
	sets func(flag, key string) bool
	env  map[string]string
	// discover finds the settings of a running embedded stack, if there is one.
	discover func(stateDir string) map[string]string
	// outside: no context applies, whatever chooses one.
	outside bool
}

func resolve(k Setting, src ConfigSource, file configFile, chosen *Context, servers []string) ConfigValue {
	if k.Flag != "" && (src.sets == nil || src.sets(k.Flag, k.Name)) {
		if text, changed := src.Flag(k.Flag); changed {
			return ConfigValue{k, text, "flag --" + k.Flag, true}
		}
	}
	if chosen != nil {
		if text, ok := chosen.values[k.Name]; ok {
			return ConfigValue{k, text, "context " + chosen.Name, true}
		}
		if slices.Contains(servers, k.Name) {
			return ConfigValue{k, "", "context " + chosen.Name, false}
		}
	}
	for _, name := range append([]envAlias{{name: k.env()}}, k.aliases...) {
		if text, ok := src.env[name.name]; ok && (text != "" || k.emptyCounts) {
			return ConfigValue{k, withUnit(text, name.unit), "env " + name.name, true}
		}
	}
	if text, ok := file.values[k.Name]; ok {
		return ConfigValue{k, text, "file " + file.path, true}
	}
	return ConfigValue{k, k.Def, OriginDefault, k.Def != ""}
}

// withUnit gives a bare number the unit its variable's name promises.
func withUnit(text, unit string) string {
	if unit != "" && text != "" && strings.Trim(text, "0123456789") == "" {
		return text + unit
	}
	return text
}

// useDevStack takes the servers of a running embedded stack, but only when none of them was
// configured: half of a production configuration must never be completed with a laptop's servers.
func useDevStack(cfg *Config, src ConfigSource, servers []string) {
	configured := func(name string) bool { return cfg.Origin(name) != OriginDefault }
	if src.discover == nil || slices.ContainsFunc(servers, configured) {
		return
	}
	found := src.discover(cfg.Value("dev.state_dir"))
	for _, name := range servers {
		if text, ok := found[name]; ok {
			v := cfg.value(name)
			v.Raw, v.Origin, v.set = text, OriginDev, true
		}
	}
}

// checkTogether finds values that are fine alone and wrong together. It keeps silent about values
// that could not be read, since their problem is known already.
func checkTogether(cfg *Config, known []string) []string {
	if len(known) > 0 {
		return nil
	}
	var problems []string
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	p, kind := cfg.Publish, cfg.BrokerKind()
	refuse(p.Lease <= p.PublishTimeout,
		"publish.lease (%s) must be longer than publish.publish_timeout (%s): a publish may still succeed when its time-out has passed",
		p.Lease, p.PublishTimeout)
	refuse(p.PollInterval >= p.Lease,
		"publish.poll_interval (%s) must be shorter than publish.lease (%s): a row whose publisher died would wait for the look, not for its lease",
		p.PollInterval, p.Lease)
	refuse(p.BackoffBase > p.BackoffMax,
		"publish.backoff_base (%s) is longer than publish.backoff_max (%s)", p.BackoffBase, p.BackoffMax)
	if kind.Takes != nil {
		takes := kind.Takes(cfg.Value)
		refuse(takes > p.PublishTimeout,
			"%s.timeout (%s) must not be longer than publish.publish_timeout (%s)",
			kind.Name, takes, p.PublishTimeout)
	}
	if kind.Check != nil {
		wrong := kind.Check(cfg.Value)
		for _, name := range slices.Sorted(maps.Keys(wrong)) {
			refuse(true, "%s (%s): %v", name, cfg.Origin(name), wrong[name])
		}
	}
	return problems
}
