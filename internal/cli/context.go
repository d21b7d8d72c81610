package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// Names in the configuration file that are not settings.
const (
	keyContexts       = "contexts"
	keyCurrentContext = "current_context"
	keyProduction     = "production"
	keyReadOnly       = "read_only"
)

// FlagContext is the flag that chooses a context.
const FlagContext = "context"

// A Context is a set of servers under one name, as the configuration file describes it.
type Context struct {
	Name string
	// Production asks for the context's name before many rows are changed, or anything is destroyed.
	Production bool
	// ReadOnly refuses every command that would write, and keeps every connection from changing the
	// database.
	ReadOnly bool

	values map[string]string
}

// Setting is what the context sets a key to.
func (c Context) Setting(name string) string { return c.values[name] }

// ReadOnly reports whether nothing may be changed where this configuration points.
func (c *Config) ReadOnly() bool { return c.Context != nil && c.Context.ReadOnly }

// ServerKeys say which installation is meant. With a context they come from it and from flags
// alone: the database of one must never be completed with another one's Redis.
func ServerKeys() []string {
	keys := []string{"database.url", "ui.read_url", "redis.url", keyBroker}
	for _, kind := range brokers() {
		for _, s := range kind.Settings {
			if s.Server {
				keys = append(keys, s.Name)
			}
		}
	}
	return keys
}

// takeContexts reads the contexts of a file, and the name of the current one.
func (f *configFile) takeContexts(root map[string]any) (problems []string) {
	refuse := func(name, why string) {
		problems = append(problems, fmt.Sprintf("%s (file %s): %s", name, f.path, why))
	}
	if current, there := root[keyCurrentContext]; there {
		if name, ok := current.(string); ok {
			f.current = name
		} else {
			refuse(keyCurrentContext, "want the name of a context")
		}
		delete(root, keyCurrentContext)
	}
	all, there := root[keyContexts]
	delete(root, keyContexts)
	named, ok := all.(map[string]any)
	if there && !ok {
		refuse(keyContexts, "want contexts by their names")
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		section, ok := named[name].(map[string]any)
		if !ok {
			refuse(keyContexts+"."+name, "want the settings of this context below it")
			continue
		}
		c := Context{Name: name}
		for key, flag := range map[string]*bool{keyProduction: &c.Production, keyReadOnly: &c.ReadOnly} {
			value, there := section[key]
			delete(section, key)
			if *flag, ok = value.(bool); there && !ok {
				refuse(keyContexts+"."+name+"."+key, "want true or false")
			}
		}
		settings := configFile{path: f.path, settings: f.settings, values: map[string]string{}}
		for _, problem := range settings.take("", section) {
			problems = append(problems, keyContexts+"."+name+"."+problem)
		}
		c.values = settings.values
		f.contexts = append(f.contexts, c)
	}
	return problems
}

// choose finds the context that applies: by flag, by environment, or the file's current one.
func (f *configFile) choose(src ConfigSource) (*Context, []string) {
	name, origin := f.wanted(src)
	if name == "" || src.outside {
		return nil, nil
	}
	for i := range f.contexts {
		if f.contexts[i].Name == name {
			return &f.contexts[i], nil
		}
	}
	names := make([]string, len(f.contexts))
	for i, c := range f.contexts {
		names[i] = c.Name
	}
	why := "the configuration file has none"
	if len(names) > 0 {
		why = "there are " + strings.Join(names, ", ")
	}
	return nil, []string{fmt.Sprintf("%s (%s): no such context; %s", name, origin, why)}
}

// ContextNames returns the configuration file and the names of the contexts in it, whatever else is
// wrong with them.
func (a *App) ContextNames() (file string, names map[string]bool, err error) {
	src := ConfigSource{Flag: a.lookup, env: a.env}
	f, problems := readConfigFile(src)
	if f.path == "" {
		return "", nil, ConfigProblems(append(problems, "there is no configuration file")...)
	}
	names = map[string]bool{}
	for _, c := range f.contexts {
		names[c.Name] = true
	}
	return f.path, names, nil
}

// SetCurrentContext writes the name of the current context to a configuration file; the empty name
// removes it. Every other line stays as it is, and the file is replaced as a whole, unless it would
// then read differently in anything else.
func SetCurrentContext(path, name string) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	want, _ := loadConfigFile(path)
	fresh, err := os.CreateTemp(filepath.Dir(path), ".outboxctl-*"+filepath.Ext(path))
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(fresh.Name()) }() // gone already when it has become the file
	_, err = fresh.WriteString(withCurrentContext(string(text), name))
	err = errors.Join(err, fresh.Chmod(info.Mode().Perm()), fresh.Sync(), fresh.Close())
	if err != nil {
		return err
	}
	want.path, want.current = fresh.Name(), name
	if got, _ := loadConfigFile(fresh.Name()); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s cannot be set in a file of this form without changing the rest: set it by hand", keyCurrentContext)
	}
	return os.Rename(fresh.Name(), path)
}

// withCurrentContext edits the text of a configuration file, which is YAML or, as a part of that,
// JSON. An empty text is one that it does not know how to edit.
func withCurrentContext(text, name string) string {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) == 0 {
		return ""
	}
	lines, root := strings.SplitAfter(text, "\n"), doc.Content[0]
	if root.Kind != yaml.MappingNode || root.Style == yaml.FlowStyle {
		return ""
	}
	at, gone := root.Content[0].Line-1, 0
	for i := 0; i < len(root.Content); i += 2 {
		if key, value := root.Content[i], root.Content[i+1]; key.Value == keyCurrentContext {
			at, gone = key.Line-1, value.Line-key.Line+1
		}
	}
	var line []string
	if name != "" {
		line = []string{keyCurrentContext + ": " + strconv.Quote(name) + "\n"}
	}
	return strings.Join(slices.Replace(lines, at, at+gone, line...), "")
}

// CompleteContexts suggests the contexts of the configuration file.
func CompleteContexts(app *App) Completion {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		app.BindFlags(cmd)
		_, names, err := app.ContextNames()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(names)), cobra.ShellCompDirectiveNoFileComp
	}
}

// wanted is the name of the context that applies, and what says so.
func (f *configFile) wanted(src ConfigSource) (name, origin string) {
	name, origin = f.current, "file "+f.path
	if env := src.env["OUTBOXCTL_CONTEXT"]; env != "" {
		name, origin = env, "env OUTBOXCTL_CONTEXT"
	}
	if text, given := src.Flag(FlagContext); given {
		name, origin = text, "flag --"+FlagContext
	}
	return name, origin
}

// An Effect is what a command does to the database, the broker and the Redis that are configured.
type Effect struct {
	// Writes: it changes something there, or may.
	Writes bool
	// Unless are the flags with which it only looks.
	Unless []string
}

// RefuseReadOnly refuses a command that would write to a context that is read-only.
func (a *App) RefuseReadOnly(cmd *cobra.Command, e Effect) error {
	on := func(flag string) bool {
		text, given := a.Flag(flag)
		return given && text != "" && text != "false"
	}
	if !e.Writes || slices.ContainsFunc(e.Unless, on) {
		return nil
	}
	if !a.load().ReadOnly() {
		return nil
	}
	look := ""
	if len(e.Unless) > 0 {
		look = "; --" + e.Unless[0] + " changes nothing and works here too"
	}
	name := a.cfg.Context.Name
	return fault.Hint(fault.Refusedf("context %s is read-only, and %s would change what it names", name, cmd.CommandPath()),
		"choose another with --%s, or remove %s.%s.%s in %s%s", FlagContext, keyContexts, name, keyReadOnly, a.cfg.File, look)
}
