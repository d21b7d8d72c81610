package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/pgpool"
	"github.com/outboxctl/outboxctl/internal/words"
)

// source builds a configSource from maps.
func source(flags, env map[string]string) ConfigSource {
	return ConfigSource{
		env: env,
		Flag: func(name string) (string, bool) {
			text, ok := flags[name]
			return text, ok
		},
	}
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	cfg, problems := LoadConfig(source(nil, nil))
	require.Empty(t, problems)
	cfg.Values = nil

	want := &Config{}
	want.Database.ExecMode = "cache_statement"
	want.Database.ReadTimeout = 5 * time.Second
	want.Redis.URL = "redis://127.0.0.1:6379/0"
	want.Broker = "pubsub"
	want.Topics = map[string]string{
		"domain": "pf-domain-events", "analytics": "pf-analytics-events",
		"notifications": "pf-notification-events", "billing": "pf-billing-events",
	}
	want.Publish.BatchSize = 50
	want.Publish.PollInterval = 500 * time.Millisecond
	want.Publish.MaxAttempts = 10
	want.Publish.Lease = 30 * time.Second
	want.Publish.PublishTimeout = 10 * time.Second
	want.Publish.BackoffBase = time.Second
	want.Publish.BackoffMax = 5 * time.Minute
	want.Publish.Workers = 2
	want.Publish.ShutdownTimeout = 20 * time.Second
	want.Publish.Wake = "auto"
	want.UI.Addr, want.UI.Color, want.UI.ReadRole = "127.0.0.1:9466", "blue", "outbox_viewer"
	want.UI.JWT.Claim, want.UI.Payloads = "email", "off"
	want.UI.Refresh, want.UI.QueryTimeout, want.UI.MaxPlanRows = 5*time.Second, 5*time.Second, 1_000_000
	want.Publish.HTTPAddr = "127.0.0.1:9464"
	want.Consume.HTTPAddr = "127.0.0.1:9464"
	want.Idempotency.TTL = consume.DefaultTTL
	want.Log.Level = "info"
	want.Log.Format = "json"
	require.Equal(t, want, cfg)
}

// Every environment variable, ours and other people's, reaches its field.
func TestConfigEnvironment(t *testing.T) {
	t.Parallel()
	text := func(f func(*Config) string) func(*Config) any { return func(c *Config) any { return f(c) } }
	for name, tc := range map[string]struct {
		value string
		field func(*Config) any
		want  any
	}{
		"OUTBOXCTL_DATABASE_URL":                   {"postgres://a/b", text(func(c *Config) string { return c.Database.URL }), "postgres://a/b"},
		"DATABASE_URL":                             {"postgres://a/b", text(func(c *Config) string { return c.Database.URL }), "postgres://a/b"},
		"OUTBOXCTL_DATABASE_EXEC_MODE":             {"exec", text(func(c *Config) string { return c.Database.ExecMode }), "exec"},
		"OUTBOXCTL_DATABASE_READ_TIMEOUT":          {"1m", func(c *Config) any { return c.Database.ReadTimeout }, time.Minute},
		"OUTBOXCTL_REDIS_URL":                      {"rediss://r:1/2", text(func(c *Config) string { return c.Redis.URL }), "rediss://r:1/2"},
		"REDIS_URL":                                {"redis://r:1/2", text(func(c *Config) string { return c.Redis.URL }), "redis://r:1/2"},
		"OUTBOXCTL_BROKER":                         {"pubsub", text(func(c *Config) string { return c.Broker }), "pubsub"},
		"OUTBOXCTL_PUBSUB_PROJECT":                 {"shop-1", text(func(c *Config) string { return c.Value("pubsub.project") }), "shop-1"},
		"GOOGLE_CLOUD_PROJECT":                     {"shop-1", text(func(c *Config) string { return c.Value("pubsub.project") }), "shop-1"},
		"OUTBOXCTL_PUBSUB_EMULATOR":                {"h:1", text(func(c *Config) string { return c.Value("pubsub.emulator") }), "h:1"},
		"PUBSUB_EMULATOR_HOST":                     {"h:1", text(func(c *Config) string { return c.Value("pubsub.emulator") }), "h:1"},
		"OUTBOXCTL_PUBSUB_ENDPOINT":                {"h:1", text(func(c *Config) string { return c.Value("pubsub.endpoint") }), "h:1"},
		"OUTBOXCTL_PUBSUB_TOPICS_DOMAIN":           {"top", text(func(c *Config) string { return c.Topics["domain"] }), "top"},
		"OUTBOXCTL_TOPICS_DOMAIN":                  {"top", text(func(c *Config) string { return c.Topics["domain"] }), "top"},
		"PACKFINDERZ_PUBSUB_DOMAIN_TOPIC":          {"top", text(func(c *Config) string { return c.Topics["domain"] }), "top"},
		"OUTBOXCTL_PUBSUB_TOPICS_ANALYTICS":        {"top", text(func(c *Config) string { return c.Topics["analytics"] }), "top"},
		"OUTBOXCTL_TOPICS_ANALYTICS":               {"top", text(func(c *Config) string { return c.Topics["analytics"] }), "top"},
		"PACKFINDERZ_PUBSUB_ANALYTICS_TOPIC":       {"top", text(func(c *Config) string { return c.Topics["analytics"] }), "top"},
		"OUTBOXCTL_PUBSUB_TOPICS_NOTIFICATIONS":    {"top", text(func(c *Config) string { return c.Topics["notifications"] }), "top"},
		"OUTBOXCTL_TOPICS_NOTIFICATIONS":           {"top", text(func(c *Config) string { return c.Topics["notifications"] }), "top"},
		"PACKFINDERZ_PUBSUB_NOTIFICATION_TOPIC":    {"top", text(func(c *Config) string { return c.Topics["notifications"] }), "top"},
		"OUTBOXCTL_PUBSUB_TOPICS_BILLING":          {"top", text(func(c *Config) string { return c.Topics["billing"] }), "top"},
		"OUTBOXCTL_TOPICS_BILLING":                 {"top", text(func(c *Config) string { return c.Topics["billing"] }), "top"},
		"PACKFINDERZ_PUBSUB_BILLING_TOPIC":         {"top", text(func(c *Config) string { return c.Topics["billing"] }), "top"},
		"OUTBOXCTL_PUBSUB_SUBSCRIPTION":            {"sub", text(func(c *Config) string { return c.Value("pubsub.subscription") }), "sub"},
		"PACKFINDERZ_PUBSUB_DOMAIN_SUBSCRIPTION":   {"sub", text(func(c *Config) string { return c.Value("pubsub.subscription") }), "sub"},
		"OUTBOXCTL_PUBLISH_BATCH_SIZE":             {"77", func(c *Config) any { return c.Publish.BatchSize }, 77},
		"PACKFINDERZ_OUTBOX_PUBLISH_BATCH_SIZE":    {"77", func(c *Config) any { return c.Publish.BatchSize }, 77},
		"OUTBOXCTL_PUBLISH_POLL_INTERVAL":          {"2s", func(c *Config) any { return c.Publish.PollInterval }, 2 * time.Second},
		"PACKFINDERZ_OUTBOX_PUBLISH_POLL_MS":       {"250", func(c *Config) any { return c.Publish.PollInterval }, 250 * time.Millisecond},
		"OUTBOXCTL_PUBLISH_MAX_ATTEMPTS":           {"25", func(c *Config) any { return c.Publish.MaxAttempts }, 25},
		"PACKFINDERZ_OUTBOX_MAX_ATTEMPTS":          {"25", func(c *Config) any { return c.Publish.MaxAttempts }, 25},
		"OUTBOXCTL_PUBLISH_LEASE":                  {"1m", func(c *Config) any { return c.Publish.Lease }, time.Minute},
		"OUTBOXCTL_PUBLISH_PUBLISH_TIMEOUT":        {"3s", func(c *Config) any { return c.Publish.PublishTimeout }, 3 * time.Second},
		"OUTBOXCTL_PUBLISH_BACKOFF_BASE":           {"3s", func(c *Config) any { return c.Publish.BackoffBase }, 3 * time.Second},
		"OUTBOXCTL_PUBLISH_BACKOFF_MAX":            {"1d", func(c *Config) any { return c.Publish.BackoffMax }, 24 * time.Hour},
		"OUTBOXCTL_PUBLISH_WORKERS":                {"5", func(c *Config) any { return c.Publish.Workers }, 5},
		"OUTBOXCTL_PUBLISH_SHUTDOWN_TIMEOUT":       {"5s", func(c *Config) any { return c.Publish.ShutdownTimeout }, 5 * time.Second},
		"OUTBOXCTL_PUBLISH_WAKE":                   {"off", text(func(c *Config) string { return c.Publish.Wake }), "off"},
		"OUTBOXCTL_PUBLISH_LOG_PUBLISHED":          {"true", func(c *Config) any { return c.Publish.LogPublished }, true},
		"OUTBOXCTL_PUBLISH_HTTP_ADDR":              {"", text(func(c *Config) string { return c.Publish.HTTPAddr }), ""},
		"OUTBOXCTL_CONSUME_HTTP_ADDR":              {":0", text(func(c *Config) string { return c.Consume.HTTPAddr }), ":0"},
		"OUTBOXCTL_IDEMPOTENCY_TTL":                {"2w", func(c *Config) any { return c.Idempotency.TTL }, 14 * 24 * time.Hour},
		"PACKFINDERZ_EVENTING_IDEMPOTENCY_TTL":     {"168h", func(c *Config) any { return c.Idempotency.TTL }, 168 * time.Hour},
		"PACKFINDERZ_OUTBOX_IDEMPOTENCY_TTL_HOURS": {"168", func(c *Config) any { return c.Idempotency.TTL }, 168 * time.Hour},
		"OUTBOXCTL_LOG_LEVEL":                      {"debug", text(func(c *Config) string { return c.Log.Level }), "debug"},
		"OUTBOXCTL_LOG_FORMAT":                     {"console", text(func(c *Config) string { return c.Log.Format }), "console"},
		"OUTBOXCTL_CATALOGUE":                      {"c.yaml", text(func(c *Config) string { return c.Catalogue }), "c.yaml"},
		"OUTBOXCTL_UI_ADDR":                        {"127.0.0.1:0", text(func(c *Config) string { return c.UI.Addr }), "127.0.0.1:0"},
		"OUTBOXCTL_UI_BASE_PATH":                   {"/ops", text(func(c *Config) string { return c.UI.BasePath }), "/ops"},
		"OUTBOXCTL_UI_PUBLIC_URL":                  {"https://x", text(func(c *Config) string { return c.UI.PublicURL }), "https://x"},
		"OUTBOXCTL_UI_LABEL":                       {"prod", text(func(c *Config) string { return c.UI.Label }), "prod"},
		"OUTBOXCTL_UI_COLOR":                       {"red", text(func(c *Config) string { return c.UI.Color }), "red"},
		"OUTBOXCTL_UI_READ_ROLE":                   {"-", text(func(c *Config) string { return c.UI.ReadRole }), "-"},
		"OUTBOXCTL_UI_REFRESH":                     {"9s", func(c *Config) any { return c.UI.Refresh }, 9 * time.Second},
		"OUTBOXCTL_UI_QUERY_TIMEOUT":               {"9s", func(c *Config) any { return c.UI.QueryTimeout }, 9 * time.Second},
		"OUTBOXCTL_UI_ALLOW_CHANGES":               {"true", func(c *Config) any { return c.UI.AllowChanges }, true},
		"OUTBOXCTL_UI_PAYLOADS":                    {"reveal", func(c *Config) any { return c.UI.Payloads }, "reveal"},
		"OUTBOXCTL_UI_TRACE_URL":                   {"https://t.example/{trace_id}", func(c *Config) any { return c.UI.TraceURL }, "https://t.example/{trace_id}"},
		"OUTBOXCTL_UI_AUTH":                        {"users", func(c *Config) any { return c.UI.Auth }, "users"},
		"OUTBOXCTL_UI_READ_URL":                    {"postgres://replica/x", func(c *Config) any { return c.UI.ReadURL }, "postgres://replica/x"},
		"OUTBOXCTL_UI_USERS":                       {"x", func(c *Config) any { return c.UI.Users }, "x"},
		"OUTBOXCTL_UI_USERS_FILE":                  {"x", func(c *Config) any { return c.UI.UsersFile }, "x"},
		"OUTBOXCTL_UI_OPERATORS":                   {"x", func(c *Config) any { return c.UI.Operators }, "x"},
		"OUTBOXCTL_UI_JWT_PRESET":                  {"iap", func(c *Config) any { return c.UI.JWT.Preset }, "iap"},
		"OUTBOXCTL_UI_JWT_HEADER":                  {"x", func(c *Config) any { return c.UI.JWT.Header }, "x"},
		"OUTBOXCTL_UI_JWT_JWKS_URL":                {"x", func(c *Config) any { return c.UI.JWT.KeysURL }, "x"},
		"OUTBOXCTL_UI_JWT_ISSUER":                  {"x", func(c *Config) any { return c.UI.JWT.Issuer }, "x"},
		"OUTBOXCTL_UI_JWT_AUDIENCE":                {"x", func(c *Config) any { return c.UI.JWT.Audience }, "x"},
		"OUTBOXCTL_UI_JWT_ALGS":                    {"x", func(c *Config) any { return c.UI.JWT.Algs }, "x"},
		"OUTBOXCTL_UI_JWT_CLAIM":                   {"sub", func(c *Config) any { return c.UI.JWT.Claim }, "sub"},
		"OUTBOXCTL_UI_TLS_CERT":                    {"x", func(c *Config) any { return c.UI.TLSCert }, "x"},
		"OUTBOXCTL_UI_TLS_KEY":                     {"x", func(c *Config) any { return c.UI.TLSKey }, "x"},
		"OUTBOXCTL_UI_MAX_PLAN_ROWS":               {"12", func(c *Config) any { return c.UI.MaxPlanRows }, 12},
		"OUTBOXCTL_STATE_DIR":                      {"/x", text(func(c *Config) string { return c.Dev.StateDir }), "/x"},
		"OUTBOXCTL_DEV_STATE_DIR":                  {"/x", text(func(c *Config) string { return c.Dev.StateDir }), "/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, problems := LoadConfig(source(nil, map[string]string{name: tc.value}))
			require.Empty(t, problems)
			require.Equal(t, tc.want, tc.field(cfg))
		})
	}
}

// The table above is complete: a new variable needs a line there.
func TestConfigEnvironmentIsExhaustive(t *testing.T) {
	t.Parallel()
	n := 0
	for _, k := range Settings() {
		if !strings.HasPrefix(k.Name, "http.") && !strings.HasPrefix(k.Name, "exec.") { // see TestEveryBrokersSettings
			n += len(k.EnvNames())
		}
	}
	require.Equal(t, 114, n, "a variable was added or removed: change TestConfigEnvironment too")
}

func TestConfigPrecedence(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "outboxctl.yaml")
	require.NoError(t, os.WriteFile(path, []byte("publish:\n  batch_size: 11\n"), 0o600))
	flags := map[string]string{"config": path}
	env := map[string]string{}
	batch := func() (int, string) {
		cfg, problems := LoadConfig(source(flags, env))
		require.Empty(t, problems)
		return cfg.Publish.BatchSize, cfg.Origin("publish.batch_size")
	}
	n, origin := batch()
	require.Equal(t, 11, n)
	require.Equal(t, "file "+path, origin)

	env["PACKFINDERZ_OUTBOX_PUBLISH_BATCH_SIZE"] = "22"
	n, _ = batch()
	require.Equal(t, 22, n)

	env["OUTBOXCTL_PUBLISH_BATCH_SIZE"] = "33"
	n, origin = batch()
	require.Equal(t, 33, n)
	require.Equal(t, "env OUTBOXCTL_PUBLISH_BATCH_SIZE", origin)

	flags["batch-size"] = "44"
	n, origin = batch()
	require.Equal(t, 44, n)
	require.Equal(t, "flag --batch-size", origin)
}

func TestConfigProblemsComeTogether(t *testing.T) {
	t.Parallel()
	_, problems := LoadConfig(source(
		map[string]string{"database-url": "postgres://app:canary@host:notaport/x", "redis-url": "http://x", "emulator": "nowhere"},
		map[string]string{
			"OUTBOXCTL_PUBLISH_MAX_ATTEMPTS": "0", "OUTBOXCTL_PUBLISH_LEASE": "soon", "OUTBOXCTL_PUBLISH_BATCH_SIZE": "1001",
			"OUTBOXCTL_PUBSUB_TOPICS_BILLING": "goog-x", "OUTBOXCTL_PUBLISH_HTTP_ADDR": "9464", "OUTBOXCTL_CONFIG": "/nowhere.yaml",
		}))
	require.Len(t, problems, 9)
	for _, p := range problems {
		require.NotContains(t, p, "canary")
	}
}

func TestConfigValuesThatContradictEachOther(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  map[string]string
		want []string
	}{
		"lease and backoff": {
			map[string]string{"OUTBOXCTL_PUBLISH_LEASE": "10s", "OUTBOXCTL_PUBLISH_BACKOFF_BASE": "10m"},
			[]string{"publish.lease (10s) must be longer than publish.publish_timeout (10s)", "publish.backoff_base (10m0s)"},
		},
		"poll interval as long as the lease": {
			map[string]string{"OUTBOXCTL_PUBLISH_POLL_INTERVAL": "30s"},
			[]string{"publish.poll_interval (30s) must be shorter than publish.lease (30s)"},
		},
		"poll interval shorter":        {map[string]string{"OUTBOXCTL_PUBLISH_POLL_INTERVAL": "29s"}, nil},
		"project of no form":           {map[string]string{"GOOGLE_CLOUD_PROJECT": "My Shop"}, []string{"pubsub.project (env GOOGLE_CLOUD_PROJECT): "}},
		"project only an emulator has": {map[string]string{"GOOGLE_CLOUD_PROJECT": "p"}, []string{"pubsub.project (env GOOGLE_CLOUD_PROJECT): "}},
		"project of an emulator":       {map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "PUBSUB_EMULATOR_HOST": "h:1"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := LoadConfig(source(nil, tc.env))
			require.Len(t, problems, len(tc.want), "%v", problems)
			for i, want := range tc.want {
				require.Contains(t, problems[i], want)
			}
		})
	}
}

// The broker's rule for names is the configuration's: a topic may be another project's, and goog is Google's own.
func TestConfigTakesTheBrokersRuleForNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{
		"orders": true, "projects/other-1/topics/orders": true, "or": false, "goog-orders": false, "Google-orders": false, "orders/new": false,
	} {
		cfg, problems := LoadConfig(source(nil, map[string]string{"OUTBOXCTL_PUBSUB_TOPICS_DOMAIN": name}))
		require.Equal(t, ok, len(problems) == 0, "%s: %v", name, problems)
		if ok {
			require.Equal(t, name, cfg.Topics["domain"])
		}
	}
}

func TestDevStackNeverCompletesHalfAConfiguration(t *testing.T) {
	t.Parallel()
	src := source(nil, nil)
	src.discover = func(string) map[string]string {
		return map[string]string{"database.url": "postgres://127.0.0.1/dev", "pubsub.project": "dev"}
	}
	cfg, _ := LoadConfig(src)
	require.Equal(t, "postgres://127.0.0.1/dev", cfg.Database.URL)
	require.Equal(t, OriginDev, cfg.Origin("database.url"))

	src.env = map[string]string{"GOOGLE_CLOUD_PROJECT": "production"}
	cfg, _ = LoadConfig(src)
	require.Empty(t, cfg.Database.URL)
	require.Equal(t, "production", cfg.Value("pubsub.project"))
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "2w": 336 * time.Hour, "12h": 12 * time.Hour, "1h30m": 90 * time.Minute,
		"500ms": 500 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "0s": 0,
	} {
		got, err := words.ParseDuration(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "30", "d30", "a week", "1d1"} {
		_, err := words.ParseDuration(text)
		require.Error(t, err, text)
	}
}

// What a connection string sets wins; a password that names a setting sets nothing.
func TestPoolSettings(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		conns   int32
		timeout time.Duration
	}{
		"postgres://localhost/x":                                     {7, pgpool.ConnectTimeout},
		"postgres://localhost/x?connect_timeout=2&pool_max_conns=3":  {3, 2 * time.Second},
		"postgres://u:pool_max_conns@localhost/x":                    {7, pgpool.ConnectTimeout},
		"host=localhost pool_max_conns = 3 connect_timeout=2":        {3, 2 * time.Second},
		"host=localhost password='pool_max_conns=3 connect_timeout'": {7, pgpool.ConnectTimeout},
	} {
		pc, err := pgpool.Config(raw, pgpool.Params{MaxConns: 7})
		require.NoError(t, err, raw)
		require.Equal(t, want.conns, pc.MaxConns, raw)
		require.Equal(t, want.timeout, pc.ConnConfig.ConnectTimeout, raw)
	}
}

func TestSecureURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"postgres://127.0.0.1/x":                      "postgres://127.0.0.1/x",
		"postgres://localhost/x":                      "postgres://localhost/x",
		"postgres:///x?host=/var/run/postgresql":      "postgres:///x?host=/var/run/postgresql",
		"postgres://db.example.com/x":                 "postgres://db.example.com/x?sslmode=verify-full",
		"postgres://db.example.com/x?a=b":             "postgres://db.example.com/x?a=b&sslmode=verify-full",
		"postgres://db.example.com/x?sslmode=require": "postgres://db.example.com/x?sslmode=require",
		"host=db.example.com dbname=x":                "host=db.example.com dbname=x sslmode=verify-full",
		"host=db.example.com dbname=sslmode":          "host=db.example.com dbname=sslmode sslmode=verify-full",
		"host=db.example.com sslmode = require":       "host=db.example.com sslmode = require",
		"host=db.example.com password='no sslmode=x'": "host=db.example.com password='no sslmode=x' sslmode=verify-full",
		"postgres://u:sslmode@db.example.com/sslmode": "postgres://u:sslmode@db.example.com/sslmode?sslmode=verify-full",
		"postgres://localhost,db.example.com/x":       "postgres://localhost,db.example.com/x?sslmode=verify-full",
		"postgres://localhost:1,127.0.0.1:2/x":        "postgres://localhost:1,127.0.0.1:2/x",
	} {
		require.Equal(t, want, pgpool.SecureURL(raw), raw)
	}
}
