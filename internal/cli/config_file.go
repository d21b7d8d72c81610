package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/viper"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/fileowner"
)

// configFile is what the configuration file sets, as text by key.
type configFile struct {
	path     string
	settings []string // the names of those that there are
	values   map[string]string
	contexts []Context
	current  string // the name of the current context
}

// readConfigFile reads the file that was named, or the first of the usual ones that exists. A key
// that does not exist is a problem: it is a typing error that would otherwise be ignored for years.
func readConfigFile(src ConfigSource) (configFile, []string) {
	path, named := src.Flag(FlagConfig)
	if !named {
		path, named = src.env["OUTBOXCTL_CONFIG"], src.env["OUTBOXCTL_CONFIG"] != ""
	}
	if !named {
		if path = usualConfigFile(src.env); path == "" {
			return configFile{}, nil
		}
		// It says which database is changed, and it was not named: another user must not have put it
		// there.
		if err := fileowner.Check(path); err != nil {
			return configFile{}, []string{fmt.Sprintf("configuration file %s is not used: %v; --config %[1]s says that it is meant", path, err)}
		}
	}
	return loadConfigFile(path)
}

func loadConfigFile(path string) (configFile, []string) {
	tree := &treeDecoder{registry: viper.NewCodecRegistry()}
	reader := viper.NewWithOptions(viper.WithDecoderRegistry(tree))
	reader.SetConfigFile(path)
	if err := reader.ReadInConfig(); err != nil {
		return configFile{}, []string{"configuration file " + fileProblem(path, err)}
	}
	file := configFile{path: path, values: map[string]string{}}
	for _, k := range Settings() {
		file.settings = append(file.settings, k.Name)
	}
	problems := file.takeContexts(tree.root)
	return file, append(problems, file.take("", tree.root)...)
}

// fileProblem explains in our words why a configuration file cannot be read.
func fileProblem(path string, err error) string {
	var (
		format viper.UnsupportedConfigError
		syntax viper.ConfigParseError
	)
	switch info, statErr := os.Stat(path); {
	case statErr == nil && info.IsDir():
		return path + " is a folder"
	case errors.As(err, &format):
		return path + " must end in .yaml, .json or .toml, by what it holds"
	case errors.As(err, &syntax):
		var line int
		_, _ = fmt.Sscanf(errors.Unwrap(syntax).Error(), "yaml: line %d:", &line) // the library tells it in words only
		return fmt.Sprintf("%s cannot be read: check the indentation, brackets and quotes near line %d",
			path, max(line, 1))
	default:
		return fault.File(path, err).Error()
	}
}

// treeDecoder keeps the whole tree that viper decodes. Viper's own list of keys leaves out what is
// empty, and with it a misspelt section.
type treeDecoder struct {
	registry viper.DecoderRegistry
	format   viper.Decoder
	root     map[string]any
}

// Decoder chooses the decoder of a file format.
func (d *treeDecoder) Decoder(format string) (viper.Decoder, error) {
	decoder, err := d.registry.Decoder(format)
	d.format = decoder
	return d, err
}

// Decode decodes the file.
func (d *treeDecoder) Decode(content []byte, into map[string]any) error {
	d.root = into // viper writes the keys in lower case when it has them all
	return d.format.Decode(content, into)
}

// take collects the values of a section, and what is wrong in it.
func (f configFile) take(section string, members map[string]any) (problems []string) {
	refuse := func(name, why string) {
		problems = append(problems, fmt.Sprintf("%s (file %s): %s", name, f.path, why))
	}
	for _, member := range slices.Sorted(maps.Keys(members)) {
		name := section + member
		nested, isSection := members[member].(map[string]any)
		empty := members[member] == nil
		switch known, isKey := f.knows(name); {
		case !known:
			refuse(name, "no such setting")
		case isKey && (isSection || empty):
			refuse(name, "want one value")
		case isKey:
			text, ok := scalarText(members[member])
			if !ok {
				refuse(name, "want one value, not a list")
				continue
			}
			if logical, old := strings.CutPrefix(name, oldTopicPrefix); old {
				name = topicPrefix + logical
			}
			if _, twice := f.values[name]; twice {
				refuse(name, "set twice: pubsub.topics is its earlier name")
			}
			f.values[name] = text
		case !isSection && !empty:
			refuse(name, "want the settings of this section below it, not a value")
		default:
			problems = append(problems, f.take(name+".", nested)...)
		}
	}
	return problems
}

// knows reports whether a name is that of a setting or of a section, and whether it is a
// setting's.
func (f configFile) knows(name string) (known, isKey bool) {
	for _, prefix := range []string{topicPrefix, oldTopicPrefix} {
		if logical, ok := strings.CutPrefix(name, prefix); ok && logical != "" &&
			!strings.Contains(logical, ".") {
			return true, true // the catalogue knows which there are
		}
	}
	if name+"." == oldTopicPrefix {
		return true, false
	}
	for _, setting := range f.settings {
		if setting == name {
			return true, true
		}
		known = known || strings.HasPrefix(setting, name+".")
	}
	return known, false
}

func scalarText(value any) (string, bool) {
	switch value.(type) {
	case string, bool, int, int64, uint64, float64:
		return fmt.Sprint(value), true
	default:
		return "", false
	}
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
