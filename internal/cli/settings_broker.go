package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// keyBroker is the setting that chooses among the brokers.
const keyBroker = "broker"

// BrokerNames lists the destinations that there are.
func BrokerNames() (names []string) {
	for _, kind := range brokers() {
		names = append(names, kind.Name)
	}
	return names
}

// brokerSettings are those that the brokers declare. Their values are read by Config.Value.
func brokerSettings() (settings []Setting) {
	for _, kind := range brokers() {
		for _, s := range kind.Settings {
			to := Setting{Name: s.Name, Help: s.Help, Kind: s.Kind, Def: s.Default, Secret: s.Secret, set: s.Validate}
			if to.Kind == "" {
				to.Kind = "text"
			}
			for _, name := range s.Env {
				to = to.alias(name)
			}
			if s.Flag != "" {
				groups := []FlagGroup{GroupGlobal}
				if len(s.Commands) > 0 {
					groups = nil
				}
				for _, name := range s.Commands {
					groups = append(groups, FlagGroup(name))
				}
				to = to.flag(s.Flag).in(groups...)
			}
			settings = append(settings, to)
		}
	}
	return settings
}

// chooseBroker finds which broker is meant, and refuses settings of another one: whoever set them
// means them. A variable that is not ours, such as GOOGLE_CLOUD_PROJECT, is there for other
// programs, and is left alone. The settings of other brokers have no value from then on.
func (c *Config) chooseBroker() (problems []string) {
	chosen, kinds := c.value(keyBroker), brokers()
	byFlag := strings.HasPrefix(chosen.Origin, "flag ")
	for _, kind := range kinds {
		for _, s := range kind.Settings {
			if origin := c.Origin(s.Name); s.Chooses && !byFlag && origin == "flag --"+s.Flag {
				chosen.Raw, chosen.Origin, chosen.set = kind.Name, origin, true
			}
		}
	}
	c.Broker = chosen.Raw
	mine := c.BrokerKind()
	for i, v := range c.Values {
		if !slices.ContainsFunc(kinds, func(k broker.Kind) bool { return k.Name != mine.Name && strings.HasPrefix(v.Key.Name, k.Name+".") }) {
			continue
		}
		shared := slices.ContainsFunc(mine.Settings, func(s broker.Setting) bool { return v.Origin == "flag --"+s.Flag })
		foreign := strings.HasPrefix(v.Origin, "env ") && v.Origin != "env "+v.Key.env()
		if v.set && v.Origin != OriginDefault && v.Origin != OriginDev && !foreign && !shared {
			problems = append(problems, fmt.Sprintf("%s (%s): the broker is %s (%s); remove the setting, or choose its broker", v.Key.Name, v.Origin,
				mine.Name, chosen.Origin))
		}
		c.Values[i].Raw, c.Values[i].set = "", false
	}
	return problems
}

// fitTimes lets the times of a publisher that have no value of their own follow the time that the
// broker may take for one message: a request of many messages begins some of them while others are
// answered, and the lease outlasts all of it.
func (c *Config) fitTimes() {
	kind, p := c.BrokerKind(), &c.Publish
	if kind.Takes == nil {
		return
	}
	takes := kind.Takes(c.Value)
	for _, t := range []struct {
		name string
		to   *time.Duration
		min  time.Duration
	}{
		{"publish.publish_timeout", &p.PublishTimeout, 2 * takes},
		{"publish.lease", &p.Lease, 3 * takes},
		{"publish.shutdown_timeout", &p.ShutdownTimeout, takes + 5*time.Second},
	} {
		if v := c.value(t.name); v.Origin == OriginDefault && *t.to < t.min {
			*t.to, v.Raw, v.Origin = t.min, wire.SpanText(t.min), kind.Name+".timeout"
		}
	}
}
