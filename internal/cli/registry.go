package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/words"
)

// Registry is the catalogue that the command works with, found once: what the configuration names,
// otherwise what the database recorded, otherwise the built-in one.
func (a *App) Registry(ctx context.Context) (*registry.Registry, error) {
	if a.types != nil {
		return a.types, nil
	}
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	if a.types, err = a.findRegistry(ctx, cfg); err != nil {
		return nil, err
	}
	a.types.Catalogue = a.types.WithLimits(cfg.BrokerKind().Limits)
	if _, err := a.TopicsOf(a.types.Catalogue); err != nil {
		a.types = nil
		return nil, err
	}
	return a.types, nil
}

func (a *App) findRegistry(ctx context.Context, cfg *Config) (*registry.Registry, error) {
	switch {
	case cfg.Catalogue == registry.PackFinderz, cfg.Catalogue == "" && cfg.Database.URL == "":
		return registry.New(), nil
	case cfg.Catalogue == "" || cfg.Catalogue == registry.Database:
		db, err := a.Reads(ctx)
		if err != nil {
			return nil, err
		}
		return registry.Recorded(ctx, db)
	}
	return a.OpenCatalogue(cfg.Catalogue)
}

// IsCatalogueFile reports whether the setting catalogue names a file.
func IsCatalogueFile(name string) bool {
	return name != "" && name != registry.PackFinderz && name != registry.Database
}

// OpenCatalogue reads a catalogue from a file for the configured destination, and says in the
// operator's words what is wrong with it.
func (a *App) OpenCatalogue(file string) (*registry.Registry, error) {
	cfg, err := a.Config()
	if err != nil {
		return nil, err
	}
	kind := cfg.BrokerKind()
	types, err := registry.New(), error(nil)
	if file != registry.PackFinderz {
		types, err = registry.File(file)
	}
	var problems *catalogue.Problems
	switch {
	case errors.As(err, &problems):
		return nil, fault.Hint(fault.Usagef("catalogue %s: %s\n%w", file, words.Counted(int64(len(problems.All)), "problem"), err),
			"docs/catalogue.md lists the keys; outboxctl registry export packfinderz prints an example")
	case err != nil:
		return nil, fault.Hint(fault.As(fault.Usage, fault.File("catalogue "+file, err)),
			"it is a YAML file, packfinderz, or database")
	}
	if err := checkNames(kind, types.Topics()); err != nil {
		return nil, fault.Usagef("catalogue %s: %w", file, err)
	}
	types.Catalogue = types.WithLimits(kind.Limits)
	return types, nil
}

// checkNames refuses names that the broker would refuse.
func checkNames(kind broker.Kind, topics map[string]string) error {
	var problems []error
	for _, logical := range slices.Sorted(maps.Keys(topics)) {
		if err := kind.CheckName(broker.KindTopic, topics[logical]); err != nil {
			problems = append(problems, fmt.Errorf("topic %s: %w", logical, err))
		}
	}
	return errors.Join(problems...)
}

// TopicsOf gives each logical topic of a catalogue its name at the broker. It also returns an error
// when the configuration names a topic that the catalogue does not have: most likely a typing
// error, which would otherwise publish to the wrong topic.
func (a *App) TopicsOf(types *catalogue.Catalogue) (map[string]string, error) {
	known := types.Topics()
	var problems []string
	for _, v := range a.cfg.Values {
		logical, ok := strings.CutPrefix(v.Key.Name, topicPrefix)
		if ok && v.Origin != OriginDefault && known[logical] == "" && !isPackFinderzTopic(logical) {
			problems = append(problems, fmt.Sprintf("%s (%s): the catalogue has no such topic; it has %s", v.Key.Name, v.Origin,
				strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		}
	}
	topics := maps.Clone(known)
	for logical := range topics {
		if name, ok := a.cfg.Topics[logical]; ok && a.cfg.Origin(topicPrefix+logical) != OriginDefault {
			topics[logical] = name
		}
	}
	if len(problems) > 0 {
		return topics, ConfigProblems(problems...)
	}
	return topics, nil
}

// Topics gives each logical topic of the catalogue its name at the broker: the configuration's, or
// else the catalogue's.
func (a *App) Topics(ctx context.Context) (map[string]string, error) {
	types, err := a.Registry(ctx)
	if err != nil {
		return nil, err
	}
	return a.TopicsOf(types.Catalogue)
}

// SettingsInUse is Settings with the topics of the catalogue in use: those that the built-in
// catalogue alone has are left out, and those that only the catalogue names are added. Where the
// catalogue cannot be read the settings are as they are.
func (a *App) SettingsInUse(ctx context.Context) ([]ConfigValue, error) {
	types, err := a.Registry(ctx)
	if err != nil || types.Source == registry.PackFinderz {
		return a.Settings(), err
	}
	topics, named := types.Topics(), map[string]bool{}
	var values []ConfigValue
	place := 0
	for _, v := range a.Settings() {
		if logical, ok := strings.CutPrefix(v.Key.Name, topicPrefix); ok {
			place = len(values)
			if v.Origin == OriginDefault {
				continue
			}
			named[logical] = true
			place++
		}
		values = append(values, v)
	}
	for _, logical := range slices.Sorted(maps.Keys(topics)) {
		if !named[logical] {
			key := a.cfg.topic(logical).def(topics[logical])
			values = slices.Insert(values, place, ConfigValue{Key: key, Raw: topics[logical],
				Origin: "catalogue " + types.Source})
			place++
		}
	}
	return values, nil
}

// FollowsDatabase reports whether the catalogue is the database's, so that it changes with it.
func (a *App) FollowsDatabase() bool {
	return a.cfg.Catalogue == registry.Database || a.cfg.Catalogue == "" && a.cfg.Database.URL != ""
}
