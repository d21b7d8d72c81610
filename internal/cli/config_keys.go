package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/pubsub"
)

// The defaults of what only the command line knows; the others are those of the packages that use the value.
const (
	defaultRedisURL     = "redis://127.0.0.1:6379/0"
	defaultHTTPAddr     = "127.0.0.1:9464"
	defaultUIAddr       = "127.0.0.1:9466"
	defaultSubscription = "pf-domain-events-sub"
)

// kindBool is the kind of a key that is on or off: its flag needs no value.
const kindBool = "bool"

// FlagGroup is a group of flags. Every command has the global ones; the others are added where they mean something.
type FlagGroup string

const (
	GroupGlobal  FlagGroup = "global"
	GroupPublish FlagGroup = "publish"
	GroupConsume FlagGroup = "consume"
	GroupTopic   FlagGroup = "topic"
	GroupDev     FlagGroup = "dev"
	GroupUI      FlagGroup = "ui"
)

// A ConfigKey is one setting: where its value may come from and how it is read.
type ConfigKey struct {
	Name    string
	Flag    string // without dashes; empty: no flag
	groups  []FlagGroup
	aliases []envAlias
	Def     string
	Kind    string // what the help calls the value
	Help    string
	Secret  bool
	// emptyCounts: an environment variable set to nothing is a value, not an absence.
	emptyCounts bool
	set         func(c *Config, raw string) error
}

// An envAlias is another environment variable a key is read from. A bare number in it is in the alias's unit.
type envAlias struct {
	name string
	unit string
}

// env names the variable that belongs to the key.
func (k ConfigKey) env() string {
	return "OUTBOXCTL_" + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// EnvNames lists the variables a key is read from, its own first.
func (k ConfigKey) EnvNames() []string {
	names := []string{k.env()}
	for _, alias := range k.aliases {
		names = append(names, alias.name)
	}
	return names
}

func (k ConfigKey) in(group FlagGroup) bool {
	for _, g := range k.groups {
		if g == group {
			return true
		}
	}
	return false
}

// ConfigKeys is the whole configuration, in the order in which it is shown.
func ConfigKeys() []ConfigKey {
	global, publish, consuming := []FlagGroup{GroupGlobal}, []FlagGroup{GroupPublish}, []FlagGroup{GroupConsume}
	return slices.Concat([]ConfigKey{
		{
			Name: "database.url", Flag: "database-url", groups: global, aliases: []envAlias{{name: "DATABASE_URL"}},
			Kind: "url", Secret: true, Help: "PostgreSQL connection string",
			set: SetDatabaseURL,
		},
		{
			Name: "database.exec_mode", Flag: "exec-mode", groups: global, Def: "cache_statement",
			Kind: "mode", Help: "how statements are sent; exec or simple_protocol behind a transaction pooler",
			set: setOneOf(func(c *Config) *string { return &c.Database.ExecMode },
				"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"),
		},
		{
			Name: "database.read_timeout", groups: global, Def: durationText(pgread.DefaultTimeout), Kind: "duration",
			Help: "longest statement of a command that reads; it waits a little less for a lock",
			set:  setDuration(func(c *Config) *time.Duration { return &c.Database.ReadTimeout }, 100*time.Millisecond, time.Hour),
		},
		{
			Name: "catalogue", Flag: "catalogue", groups: global, Kind: "file",
			Help: "catalogue of event types: a YAML file, builtin, or database (default what the database recorded)",
			set:  setString(func(c *Config) *string { return &c.Catalogue }),
		},
		{
			Name: "redis.url", Flag: "redis-url", groups: global, aliases: []envAlias{{name: "REDIS_URL"}},
			Def: defaultRedisURL, Kind: "url", Secret: true, Help: "Redis connection string (redis:// or rediss://)",
			set: setRedisURL,
		},
		{
			Name: "pubsub.project", Flag: "project", groups: global, aliases: []envAlias{{name: "GOOGLE_CLOUD_PROJECT"}},
			Kind: "id", Help: "Google Cloud project of the topics",
			set: setString(func(c *Config) *string { return &c.PubSub.Project }),
		},
		{
			Name: "pubsub.emulator", Flag: "emulator", groups: global, aliases: []envAlias{{name: "PUBSUB_EMULATOR_HOST"}},
			Kind: "host:port", Help: "Pub/Sub emulator to use instead of Google Cloud",
			set: setHostPort(func(c *Config) *string { return &c.PubSub.Emulator }),
		},
		{
			Name: "pubsub.endpoint", groups: global,
			Kind: "host:port", Help: "endpoint of one region, such as europe-west1-pubsub.googleapis.com:443; events with an ordering key need one",
			set: setHostPort(func(c *Config) *string { return &c.PubSub.Endpoint }),
		},
		topicKey("domain", "pf-domain-events", "PACKFINDERZ_PUBSUB_DOMAIN_TOPIC"),
		topicKey("analytics", "pf-analytics-events", "PACKFINDERZ_PUBSUB_ANALYTICS_TOPIC"),
		topicKey("notifications", "pf-notification-events", "PACKFINDERZ_PUBSUB_NOTIFICATION_TOPIC"),
		topicKey("billing", "pf-billing-events", "PACKFINDERZ_PUBSUB_BILLING_TOPIC"),
		{
			Name: "pubsub.subscription", Flag: "subscription", groups: []FlagGroup{GroupConsume, GroupTopic, GroupDev},
			aliases: []envAlias{{name: "PACKFINDERZ_PUBSUB_DOMAIN_SUBSCRIPTION"}},
			Def:     defaultSubscription, Kind: "name", Help: "subscription of the domain topic",
			set: setResourceName(func(c *Config) *string { return &c.PubSub.Subscription }),
		},
		{
			Name: "publish.batch_size", Flag: "batch-size", groups: publish,
			aliases: []envAlias{{name: "PACKFINDERZ_OUTBOX_PUBLISH_BATCH_SIZE"}}, Def: strconv.Itoa(dispatch.DefaultBatchSize), Kind: "rows",
			Help: "rows per claim to begin with; grows by itself to 1000 while claims come back full",
			set:  setInt(func(c *Config) *int { return &c.Publish.BatchSize }, 1, 1000),
		},
		{
			Name: "publish.poll_interval", Flag: "poll-interval", groups: publish,
			aliases: []envAlias{{name: "PACKFINDERZ_OUTBOX_PUBLISH_POLL_MS", unit: "ms"}}, Def: durationText(dispatch.DefaultPollInterval), Kind: "duration",
			Help: "pause between looks at an empty outbox",
			set:  setDuration(func(c *Config) *time.Duration { return &c.Publish.PollInterval }, time.Millisecond, time.Hour),
		},
		{
			Name: "publish.max_attempts", Flag: "max-attempts", groups: publish,
			aliases: []envAlias{{name: "PACKFINDERZ_OUTBOX_MAX_ATTEMPTS"}}, Def: strconv.Itoa(dispatch.DefaultMaxAttempts), Kind: "n",
			Help: "failed deliveries after which an event is dead",
			set:  setInt(func(c *Config) *int { return &c.Publish.MaxAttempts }, 1, 1_000_000),
		},
		publishDuration("lease", dispatch.DefaultLease, "how long a claimed row belongs to its publisher",
			func(c *Config) *time.Duration { return &c.Publish.Lease }),
		publishDuration("publish_timeout", dispatch.DefaultPublishTimeout, "how long the broker may take to acknowledge",
			func(c *Config) *time.Duration { return &c.Publish.PublishTimeout }),
		publishDuration("backoff_base", dispatch.DefaultBackoffBase, "delay after the first attempt that failed; doubles with each",
			func(c *Config) *time.Duration { return &c.Publish.BackoffBase }),
		publishDuration("backoff_max", dispatch.DefaultBackoffMax, "longest delay between two attempts",
			func(c *Config) *time.Duration { return &c.Publish.BackoffMax }),
		{
			Name: "publish.workers", Flag: "workers", groups: publish, Def: strconv.Itoa(dispatch.DefaultWorkers), Kind: "n",
			Help: "claim-publish-settle pipelines running side by side",
			set:  setInt(func(c *Config) *int { return &c.Publish.Workers }, 1, 64),
		},
		publishDuration("shutdown_timeout", dispatch.DefaultShutdownTimeout, "how long a stopping publisher may take to settle what is in flight",
			func(c *Config) *time.Duration { return &c.Publish.ShutdownTimeout }),
		{
			Name: "publish.wake", Flag: "wake", groups: publish, Def: "auto", Kind: "auto|off",
			Help: "LISTEN for a hint that events were committed; polling stays the truth",
			set:  setOneOf(func(c *Config) *string { return &c.Publish.Wake }, "auto", "off"),
		},
		{
			Name: "publish.log_published", Flag: "log-published", groups: publish, Def: "false", Kind: kindBool,
			Help: "a log line at info for every published event",
			set:  setBool(func(c *Config) *bool { return &c.Publish.LogPublished }),
		},
		{
			Name: "publish.http_addr", Flag: "http-addr", groups: publish, Def: defaultHTTPAddr, Kind: "host:port", emptyCounts: true,
			Help: "address of /healthz, /readyz and /metrics; port 0 picks one, empty switches off",
			set:  setListenAddr(func(c *Config) *string { return &c.Publish.HTTPAddr }),
		},
		{
			Name: "consume.http_addr", Flag: "http-addr", groups: consuming, Def: defaultHTTPAddr, Kind: "host:port", emptyCounts: true,
			Help: "address of /healthz, /readyz and /metrics; port 0 picks one, empty switches off",
			set:  setListenAddr(func(c *Config) *string { return &c.Consume.HTTPAddr }),
		},
		{
			Name: "idempotency.ttl", Flag: "idempotency-ttl", groups: consuming,
			aliases: []envAlias{
				{name: "PACKFINDERZ_EVENTING_IDEMPOTENCY_TTL", unit: "h"},
				{name: "PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS", unit: "h"},
			},
			Def: durationText(consume.DefaultTTL), Kind: "duration", Help: "how long Redis remembers that an event was processed",
			set: setDuration(func(c *Config) *time.Duration { return &c.Idempotency.TTL }, time.Second, 0),
		},
		{
			Name: "log.level", Flag: "log-level", groups: global, Def: "info", Kind: "level",
			Help: "trace, debug, info, warn or error",
			set:  setOneOf(func(c *Config) *string { return &c.Log.Level }, "trace", "debug", "info", "warn", "error"),
		},
		{
			Name: "log.format", Flag: "log-format", groups: global, Def: "json", Kind: "json|console",
			Help: "json or console; without a choice, console on a terminal",
			set:  setOneOf(func(c *Config) *string { return &c.Log.Format }, "json", "console"),
		},
	}, uiKeys(), []ConfigKey{
		{
			Name: "dev.state_dir", Flag: "state-dir", groups: []FlagGroup{GroupDev}, aliases: []envAlias{{name: "OUTBOXCTL_STATE_DIR"}},
			Kind: "dir",
			Help: "folder in which the embedded stack keeps its state, and where it is looked for",
			set:  setString(func(c *Config) *string { return &c.Dev.StateDir }),
		},
	})
}

// topicPrefix begins the keys that name topics. There is one for each topic of the built-in catalogue, and one for each
// other topic that the environment or the file names.
const topicPrefix = "pubsub.topics."

func isBuiltinTopic(logical string) bool {
	return slices.ContainsFunc(ConfigKeys(), func(k ConfigKey) bool { return k.Name == topicPrefix+logical })
}

// otherTopicKeys are the keys of topics that only another catalogue has.
func otherTopicKeys(src ConfigSource, file configFile) []ConfigKey {
	var names []string
	for name := range file.values {
		if logical, ok := strings.CutPrefix(name, topicPrefix); ok {
			names = append(names, logical)
		}
	}
	for name := range src.env {
		if logical, ok := strings.CutPrefix(name, "OUTBOXCTL_PUBSUB_TOPICS_"); ok && logical != "" {
			names = append(names, strings.ToLower(logical))
		}
	}
	slices.Sort(names)
	var keys []ConfigKey
	for _, logical := range slices.Compact(names) {
		if !isBuiltinTopic(logical) {
			keys = append(keys, topicKey(logical, ""))
		}
	}
	return keys
}

func topicKey(logical, physical string, aliases ...string) ConfigKey {
	others := make([]envAlias, len(aliases))
	for i, name := range aliases {
		others[i].name = name
	}
	return ConfigKey{
		Name: topicPrefix + logical, aliases: others, Def: physical, Kind: "name",
		Help: "physical name of the logical topic " + logical,
		set: func(c *Config, raw string) error {
			if err := pubsub.ValidateName(pubsub.KindTopic, raw); err != nil {
				return err
			}
			if c.PubSub.Topics == nil {
				c.PubSub.Topics = make(map[string]string)
			}
			c.PubSub.Topics[logical] = raw
			return nil
		},
	}
}

func publishDuration(name string, def time.Duration, help string, field func(*Config) *time.Duration) ConfigKey {
	return ConfigKey{
		Name: "publish." + name, Flag: strings.ReplaceAll(name, "_", "-"), groups: []FlagGroup{GroupPublish},
		Def: durationText(def), Kind: "duration", Help: help, set: setDuration(field, time.Millisecond, 0),
	}
}

// durationText writes a duration without the zeroes at its end: 5m, not 5m0s.
func durationText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
