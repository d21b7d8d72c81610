package cli

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/pgread"
	"github.com/outboxctl/outboxctl/internal/signin/way"
)

// Settings is every setting, in the order in which they are shown.
func Settings() []Setting { return (&Config{}).settings() }

// settings are those that set the fields of c.
func (c *Config) settings() []Setting {
	return slices.Concat(c.serverSettings(), c.topicSettings(), c.publishSettings(), c.otherSettings(), c.uiSettings(), []Setting{
		text(&c.Dev.StateDir, "dev.state_dir", "folder in which the embedded stack keeps its state, and where it is looked for").
			in(GroupDev).alias("OUTBOXCTL_STATE_DIR").kind("dir"),
	})
}

func (c *Config) serverSettings() []Setting {
	db := &c.Database
	return append([]Setting{
		text(&db.URL, "database.url", "PostgreSQL connection string", IsDatabaseURL).
			flag("database-url").in(GroupGlobal).alias("DATABASE_URL").kind("url").secret(),
		oneOf(&db.ExecMode, "database.exec_mode", "how statements are sent; exec or simple_protocol behind a transaction pooler",
			"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol").
			in(GroupGlobal).kind("mode").def("cache_statement"),
		duration(&db.ReadTimeout, "database.read_timeout", "longest statement of a command that reads; it waits a little less for a lock",
			pgread.DefaultTimeout, 100*time.Millisecond, time.Hour),
		text(&c.Catalogue, "catalogue", "catalogue of event types: a YAML file, packfinderz, or database (default what the database recorded)").
			in(GroupGlobal).kind("file"),
		text(&c.Redis.URL, "redis.url", "Redis connection string (redis:// or rediss://)", isRedisURL).
			flag("redis-url").in(GroupGlobal).alias("REDIS_URL").kind("url").secret().def("redis://127.0.0.1:6379/0"),
		oneOf(&c.Broker, keyBroker, "where events go: "+strings.Join(BrokerNames(), ", "), BrokerNames()...).
			in(GroupGlobal).kind("name").def(brokers()[0].Name),
	}, brokerSettings()...)
}

// topicPrefix begins the settings that name topics. There is one for each topic of the built-in
// catalogue, and one for each other topic that the environment or the file names. They had an
// earlier name, which still is read.
const (
	topicPrefix    = "topics."
	oldTopicPrefix = "pubsub." + topicPrefix
)

func (c *Config) topicSettings() []Setting {
	return []Setting{
		c.topic("domain").def("pf-domain-events").alias("PACKFINDERZ_PUBSUB_DOMAIN_TOPIC"),
		c.topic("analytics").def("pf-analytics-events").alias("PACKFINDERZ_PUBSUB_ANALYTICS_TOPIC"),
		c.topic("notifications").def("pf-notification-events").alias("PACKFINDERZ_PUBSUB_NOTIFICATION_TOPIC"),
		c.topic("billing").def("pf-billing-events").alias("PACKFINDERZ_PUBSUB_BILLING_TOPIC"),
	}
}

// topic is the setting of a logical topic's physical name.
func (c *Config) topic(logical string) Setting {
	s := Setting{Name: topicPrefix + logical, Kind: "name", Help: "physical name of the logical topic " + logical, set: func(raw string) error {
		if err := c.BrokerKind().CheckName(broker.KindTopic, raw); err != nil {
			return err
		}
		if c.Topics == nil {
			c.Topics = make(map[string]string)
		}
		c.Topics[logical] = raw
		return nil
	}}
	return s.alias(Setting{Name: oldTopicPrefix + logical}.env())
}

func isPackFinderzTopic(logical string) bool {
	return slices.ContainsFunc(Settings(), func(s Setting) bool { return s.Name == topicPrefix+logical })
}

// otherTopics are the settings of topics that only another catalogue has.
func (c *Config) otherTopics(src ConfigSource, file configFile) (settings []Setting) {
	var names []string
	for name := range file.values {
		if logical, ok := strings.CutPrefix(name, topicPrefix); ok {
			names = append(names, logical)
		}
	}
	for name := range src.env {
		for _, prefix := range []string{"OUTBOXCTL_TOPICS_", "OUTBOXCTL_PUBSUB_TOPICS_"} {
			if logical, ok := strings.CutPrefix(name, prefix); ok && logical != "" {
				names = append(names, strings.ToLower(logical))
			}
		}
	}
	slices.Sort(names)
	for _, logical := range slices.Compact(names) {
		if !isPackFinderzTopic(logical) {
			settings = append(settings, c.topic(logical))
		}
	}
	return settings
}

func (c *Config) publishSettings() []Setting {
	p := &c.Publish
	span := func(to *time.Duration, name, help string, def time.Duration) Setting {
		return duration(to, "publish."+name, help, def, time.Millisecond, 0).in(GroupPublish)
	}
	return []Setting{
		number(&p.BatchSize, "publish.batch_size", "rows per claim to begin with; grows by itself to 1000 while claims come back full",
			dispatch.DefaultBatchSize, 1, 1000).in(GroupPublish).alias("PACKFINDERZ_OUTBOX_PUBLISH_BATCH_SIZE").kind("rows"),
		duration(&p.PollInterval, "publish.poll_interval", "pause between queries of an empty outbox",
			dispatch.DefaultPollInterval, time.Millisecond, time.Hour).
			in(GroupPublish).aliasIn("ms", "PACKFINDERZ_OUTBOX_PUBLISH_POLL_MS"),
		number(&p.MaxAttempts, "publish.max_attempts", "failed deliveries after which an event is dead",
			dispatch.DefaultMaxAttempts, 1, 1_000_000).in(GroupPublish).alias("PACKFINDERZ_OUTBOX_MAX_ATTEMPTS"),
		span(&p.Lease, "lease", "how long a claimed row belongs to its publisher", dispatch.DefaultLease),
		span(&p.PublishTimeout, "publish_timeout", "how long the broker may take to acknowledge", dispatch.DefaultPublishTimeout),
		span(&p.BackoffBase, "backoff_base", "delay after the first attempt that failed; doubles with each", dispatch.DefaultBackoffBase),
		span(&p.BackoffMax, "backoff_max", "longest delay between two attempts", dispatch.DefaultBackoffMax),
		number(&p.Workers, "publish.workers", "claim-publish-settle pipelines running side by side",
			dispatch.DefaultWorkers, 1, 64).in(GroupPublish),
		span(&p.ShutdownTimeout, "shutdown_timeout", "how long a stopping publisher may take to settle what is in flight",
			dispatch.DefaultShutdownTimeout),
		oneOf(&p.Wake, "publish.wake", "LISTEN for a hint that events were committed; polling finds every event without it", "auto", "off").
			in(GroupPublish).kind("auto|off").def("auto"),
		onOff(&p.LogPublished, "publish.log_published", "a log line at info for every published event").in(GroupPublish),
		httpAddr(&p.HTTPAddr, "publish").in(GroupPublish),
	}
}

func httpAddr(to *string, of string) Setting {
	return text(to, of+".http_addr", "address of /healthz, /readyz and /metrics; port 0 picks one, empty switches off", isListenAddr).
		kind("host:port").def("127.0.0.1:9464").mayBeEmpty()
}

func (c *Config) otherSettings() []Setting {
	return []Setting{
		httpAddr(&c.Consume.HTTPAddr, "consume").in(GroupConsume),
		duration(&c.Idempotency.TTL, "idempotency.ttl", "how long Redis remembers that an event was processed",
			consume.DefaultTTL, time.Second, 0).flag("idempotency-ttl").in(GroupConsume).
			aliasIn("h", "PACKFINDERZ_EVENTING_IDEMPOTENCY_TTL").aliasIn("h", "PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS"),
		oneOf(&c.Log.Level, "log.level", "trace, debug, info, warn or error", "trace", "debug", "info", "warn", "error").
			flag("log-level").in(GroupGlobal).kind("level").def("info"),
		oneOf(&c.Log.Format, "log.format", "json or console; without a choice, console on a terminal", "json", "console").
			flag("log-format").in(GroupGlobal).kind("json|console").def("json"),
	}
}

// uiSettings are those of the web page. Package ui has the same defaults; a test compares them.
func (c *Config) uiSettings() []Setting {
	u, jwt := &c.UI, &c.UI.JWT
	colors := []string{"red", "amber", "green", "blue", "violet", "grey"}
	basePath := func(raw string) error { _, err := httpd.ParseBasePath(raw); return err }
	traceURL := func(raw string) error {
		if at, err := url.Parse(raw); err != nil || at.Scheme != "http" && at.Scheme != "https" || !strings.Contains(raw, "{trace_id}") {
			return errors.New("must be an address with http or https and {trace_id} in it")
		}
		return nil
	}
	return []Setting{
		text(&u.Addr, "ui.addr",
			"address of the web page; port 0 picks one; off this machine it needs --auth users or jwt and --public-url", isHostPort).
			in(GroupUI).kind("host:port").def("127.0.0.1:9466"),
		text(&u.BasePath, "ui.base_path", "prefix of every address of the page, such as /ops/outbox", basePath).in(GroupUI).kind("path"),
		text(&u.PublicURL, "ui.public_url", "the one address under which people reach the page").in(GroupUI).kind("url"),
		onOff(&u.AllowChanges, "ui.allow_changes", "let operators replay, discard, restore and republish on the page").in(GroupUI),
		oneOf(&u.Payloads, "ui.payloads", "reveal lets operators see what one event carries, which is audited", "off", "reveal").
			in(GroupUI).kind("off|reveal").def("off"),
		oneOf(&u.Auth, "ui.auth", "how people sign in: none, link, users or jwt (default on this machine none, with changes link)",
			way.None, way.Link, way.Users, way.JWT).in(GroupUI).kind("way"),
		text(&u.Users, "ui.users",
			"with --auth users: name:role:bcrypt-hash or name:role:sha256:hash-of-a-token, one a line; role viewer or operator").
			kind("lines").secret(),
		text(&u.UsersFile, "ui.users_file", "file with the same lines as ui.users").in(GroupUI).kind("file"),
		text(&u.Operators, "ui.operators",
			"with --auth jwt: who may change things, such as ann@example.com,*@ops.example.com (default none)").in(GroupUI).kind("names"),
		oneOf(&jwt.Preset, "ui.jwt.preset", "with --auth jwt: iap or cloudflare fills in header, keys and algorithms",
			way.Presets()...).kind("name"),
		text(&jwt.Header, "ui.jwt.header", "header in which the proxy sends its signed token").kind("name"),
		text(&jwt.KeysURL, "ui.jwt.jwks_url", "where the proxy publishes its keys").kind("url"),
		text(&jwt.Issuer, "ui.jwt.issuer", "who must have issued the token").kind("url"),
		text(&jwt.Audience, "ui.jwt.audience", "for whom the token must have been issued; required"),
		text(&jwt.Algs, "ui.jwt.algs", "algorithms that are accepted, such as RS256,ES256").kind("names"),
		text(&jwt.Claim, "ui.jwt.claim", "claim of the token that names the person").kind("name").def("email"),
		text(&u.TLSCert, "ui.tls_cert", "certificate with which the page itself serves https").in(GroupUI).kind("file"),
		text(&u.TLSKey, "ui.tls_key", "key of --tls-cert").in(GroupUI).kind("file"),
		number(&u.MaxPlanRows, "ui.max_plan_rows", "largest set that one change on the page may have", 1_000_000, 1, 100_000_000).
			in(GroupUI).kind("int"),
		text(&u.TraceURL, "ui.trace_url", "address of a trace, such as https://traces.example.com/trace/{trace_id}; the page links to it", traceURL).
			in(GroupUI).kind("url"),
		text(&u.Label, "ui.label", "word at the top of the page, such as production (default the database's name)").in(GroupUI),
		oneOf(&u.Color, "ui.color", "color of the label: "+strings.Join(colors, ", "), colors...).
			flag("label-color").in(GroupUI).kind("color").def("blue"),
		text(&u.ReadURL, "ui.read_url",
			"connection string of a replica, or of another login, from which the page reads (default database.url)", IsDatabaseURL).
			kind("url").secret(),
		text(&u.ReadRole, "ui.read_role", "role under which the page reads; - reads with the login's own rights").
			in(GroupUI).kind("role").def("outbox_viewer"),
		duration(&u.Refresh, "ui.refresh", "pace of the page's figures; slower by itself where they cost more",
			5*time.Second, time.Second, time.Hour).in(GroupUI),
		duration(&u.QueryTimeout, "ui.query_timeout", "longest statement of the page",
			5*time.Second, 100*time.Millisecond, time.Hour).in(GroupUI),
	}
}
