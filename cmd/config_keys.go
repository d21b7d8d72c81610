package cmd

import (
	"strings"
	"time"
)

// Every default in one place. A key's text form stands in the table of configKeys.
const (
	defaultRedisURL     = "redis://127.0.0.1:6379/0"
	defaultHTTPAddr     = "127.0.0.1:9464"
	defaultSubscription = "pf-domain-events-sub"
)

// The groups of flags. Every command has the global ones; the others are added where they mean something.
type flagGroup string

const (
	groupGlobal  flagGroup = "global"
	groupPublish flagGroup = "publish"
	groupConsume flagGroup = "consume"
	groupTopic   flagGroup = "topic"
	groupDev     flagGroup = "dev"
	groupNone    flagGroup = ""
)

// A configKey is one setting: where its value may come from and how it is read.
type configKey struct {
	name    string
	flag    string // without dashes; empty: no flag
	groups  []flagGroup
	aliases []envAlias
	def     string
	kind    string // what the help calls the value
	help    string
	secret  bool
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
func (k configKey) env() string {
	return "OUTBOXCTL_" + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// envNames lists the variables a key is read from, its own first.
func (k configKey) envNames() []string {
	names := []string{k.env()}
	for _, alias := range k.aliases {
		names = append(names, alias.name)
	}
	return names
}

func (k configKey) in(group flagGroup) bool {
	for _, g := range k.groups {
		if g == group {
			return true
		}
	}
	return false
}

// configKeys is the whole configuration, in the order in which it is shown.
func configKeys() []configKey {
	global, publish, consume := []flagGroup{groupGlobal}, []flagGroup{groupPublish}, []flagGroup{groupConsume}
	return []configKey{
		{
			name: "database.url", flag: "database-url", groups: global, aliases: []envAlias{{name: "DATABASE_URL"}},
			kind: "url", secret: true, help: "PostgreSQL connection string",
			set: setDatabaseURL,
		},
		{
			name: "database.exec_mode", flag: "exec-mode", groups: global, def: "cache_statement",
			kind: "mode", help: "how statements are sent; exec or simple_protocol behind a transaction pooler",
			set: setOneOf(func(c *Config) *string { return &c.Database.ExecMode },
				"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"),
		},
		{
			name: "redis.url", flag: "redis-url", groups: global, aliases: []envAlias{{name: "REDIS_URL"}},
			def: defaultRedisURL, kind: "url", secret: true, help: "Redis connection string (redis:// or rediss://)",
			set: setRedisURL,
		},
		{
			name: "pubsub.project", flag: "project", groups: global, aliases: []envAlias{{name: "GOOGLE_CLOUD_PROJECT"}},
			kind: "id", help: "Google Cloud project of the topics",
			set: setString(func(c *Config) *string { return &c.PubSub.Project }),
		},
		{
			name: "pubsub.emulator", flag: "emulator", groups: global, aliases: []envAlias{{name: "PUBSUB_EMULATOR_HOST"}},
			kind: "host:port", help: "Pub/Sub emulator to use instead of Google Cloud",
			set: setHostPort(func(c *Config) *string { return &c.PubSub.Emulator }),
		},
		topicKey("domain", "pf-domain-events", "PACKFINDERZ_PUBSUB_DOMAIN_TOPIC"),
		topicKey("analytics", "pf-analytics-events", "PACKFINDERZ_PUBSUB_ANALYTICS_TOPIC"),
		topicKey("notifications", "pf-notification-events", "PACKFINDERZ_PUBSUB_NOTIFICATION_TOPIC"),
		topicKey("billing", "pf-billing-events", "PACKFINDERZ_PUBSUB_BILLING_TOPIC"),
		{
			name: "pubsub.subscription", flag: "subscription", groups: []flagGroup{groupConsume, groupTopic, groupDev},
			aliases: []envAlias{{name: "PACKFINDERZ_PUBSUB_DOMAIN_SUBSCRIPTION"}},
			def:     defaultSubscription, kind: "name", help: "subscription of the domain topic",
			set: setResourceName(func(c *Config) *string { return &c.PubSub.Subscription }),
		},
		{
			name: "publish.batch_size", flag: "batch-size", groups: publish,
			aliases: []envAlias{{name: "PACKFINDERZ_OUTBOX_PUBLISH_BATCH_SIZE"}}, def: "50", kind: "rows",
			help: "rows per claim to begin with; grows by itself to 1000 while claims come back full",
			set:  setInt(func(c *Config) *int { return &c.Publish.BatchSize }, 1, 1000),
		},
		{
			name: "publish.poll_interval", flag: "poll-interval", groups: publish,
			aliases: []envAlias{{name: "PACKFINDERZ_OUTBOX_PUBLISH_POLL_MS", unit: "ms"}}, def: "500ms", kind: "duration",
			help: "pause between looks at an empty outbox",
			set:  setDuration(func(c *Config) *time.Duration { return &c.Publish.PollInterval }, time.Millisecond, time.Hour),
		},
		{
			name: "publish.max_attempts", flag: "max-attempts", groups: publish,
			aliases: []envAlias{{name: "PACKFINDERZ_OUTBOX_MAX_ATTEMPTS"}}, def: "10", kind: "n",
			help: "failed deliveries after which an event is dead",
			set:  setInt(func(c *Config) *int { return &c.Publish.MaxAttempts }, 1, 1_000_000),
		},
		publishDuration("lease", "30s", "how long a claimed row belongs to its publisher",
			func(c *Config) *time.Duration { return &c.Publish.Lease }),
		publishDuration("publish_timeout", "10s", "how long the broker may take to acknowledge",
			func(c *Config) *time.Duration { return &c.Publish.PublishTimeout }),
		publishDuration("backoff_base", "1s", "delay after the first failed delivery; doubles with each",
			func(c *Config) *time.Duration { return &c.Publish.BackoffBase }),
		publishDuration("backoff_max", "5m", "longest delay between two deliveries",
			func(c *Config) *time.Duration { return &c.Publish.BackoffMax }),
		{
			name: "publish.workers", flag: "workers", groups: publish, def: "2", kind: "n",
			help: "claim-publish-settle pipelines running side by side",
			set:  setInt(func(c *Config) *int { return &c.Publish.Workers }, 1, 64),
		},
		publishDuration("shutdown_timeout", "20s", "how long a stopping publisher may take to settle what is in flight",
			func(c *Config) *time.Duration { return &c.Publish.ShutdownTimeout }),
		{
			name: "publish.wake", flag: "wake", groups: publish, def: "auto", kind: "auto|off",
			help: "LISTEN for a hint that events were committed; polling stays the truth",
			set:  setOneOf(func(c *Config) *string { return &c.Publish.Wake }, "auto", "off"),
		},
		{
			name: "publish.http_addr", flag: "http-addr", groups: publish, def: defaultHTTPAddr, kind: "host:port", emptyCounts: true,
			help: "address of /healthz, /readyz and /metrics; port 0 picks one, empty switches off",
			set:  setListenAddr(func(c *Config) *string { return &c.Publish.HTTPAddr }),
		},
		{
			name: "consume.http_addr", flag: "http-addr", groups: consume, def: defaultHTTPAddr, kind: "host:port", emptyCounts: true,
			help: "address of /healthz, /readyz and /metrics; port 0 picks one, empty switches off",
			set:  setListenAddr(func(c *Config) *string { return &c.Consume.HTTPAddr }),
		},
		{
			name: "idempotency.ttl", flag: "idempotency-ttl", groups: consume,
			aliases: []envAlias{
				{name: "PACKFINDERZ_EVENTING_IDEMPOTENCY_TTL", unit: "h"},
				{name: "PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS", unit: "h"},
			},
			def: "720h", kind: "duration", help: "how long Redis remembers that an event was processed",
			set: setDuration(func(c *Config) *time.Duration { return &c.Idempotency.TTL }, time.Second, 0),
		},
		{
			name: "log.level", flag: "log-level", groups: global, def: "info", kind: "level",
			help: "trace, debug, info, warn or error",
			set:  setOneOf(func(c *Config) *string { return &c.Log.Level }, "trace", "debug", "info", "warn", "error"),
		},
		{
			name: "log.format", flag: "log-format", groups: global, def: "json", kind: "json|console",
			help: "json or console; without a choice, console on a terminal",
			set:  setOneOf(func(c *Config) *string { return &c.Log.Format }, "json", "console"),
		},
		{
			name: "dev.state_dir", flag: "state-dir", groups: []flagGroup{groupDev}, aliases: []envAlias{{name: "OUTBOXCTL_STATE_DIR"}},
			kind: "dir",
			help: "folder in which the embedded stack keeps its state, and where it is looked for",
			set:  setString(func(c *Config) *string { return &c.Dev.StateDir }),
		},
	}
}

func topicKey(logical, physical, alias string) configKey {
	return configKey{
		name: "pubsub.topics." + logical, aliases: []envAlias{{name: alias}}, def: physical, kind: "name",
		help: "physical name of the logical topic " + logical,
		set: func(c *Config, raw string) error {
			if err := checkResourceName(raw); err != nil {
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

func publishDuration(name, def, help string, field func(*Config) *time.Duration) configKey {
	return configKey{
		name: "publish." + name, flag: strings.ReplaceAll(name, "_", "-"), groups: []flagGroup{groupPublish},
		def: def, kind: "duration", help: help, set: setDuration(field, time.Millisecond, 0),
	}
}
