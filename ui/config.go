package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/httpd"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/pgpool"
)

// OwnRights is the ReadRole that changes no role: the page reads with the rights of its pool's
// login.
const OwnRights = "-"

// The defaults of a Config.
const (
	DefaultReadRole     = "outbox_viewer"
	DefaultRefresh      = 5 * time.Second
	DefaultQueryTimeout = 5 * time.Second
)

// Role is what a user may do.
type Role string

// The roles. A viewer looks; an operator changes, where changes are allowed.
const (
	Viewer   Role = "viewer"
	Operator Role = "operator"
)

// Identity is the user who looks at the page.
type Identity struct {
	// Name is shown, goes to the log, and is the actor in the audit of what they change.
	Name string
	// Role is what they may do; empty is a viewer's.
	Role Role
	// Auth is how they signed in, for the audit.
	Auth string
}

// ErrNotSignedIn is what Identify returns for a request without a valid identity.
var ErrNotSignedIn = errors.New("not signed in")

// ErrBusy is what Identify returns for a request that comes with too many others.
var ErrBusy = errors.New("too many requests")

// Config is what a page needs. Only ReadPool and Identify have no default.
type Config struct {
	// Pool is the database as an operator uses it: its login must be a member of outbox_operator.
	// Needed with AllowChanges and Payloads only.
	Pool *pgxpool.Pool
	// AllowChanges lets operators replay, discard, restore and republish. Without it the addresses for
	// that do not exist.
	AllowChanges bool
	// Payloads is PayloadsReveal where operators may see what one event carries, which is audited;
	// empty: no operator may.
	Payloads string
	// MaxPlanRows is the largest set that one change may have.
	MaxPlanRows int64
	// ReadPool is the database, or a replica of it, with as many connections as the page may use.
	ReadPool *pgxpool.Pool
	// ReadRole is the role under which everything is read. OwnRights changes none, and so does
	// DefaultReadRole in a database in which that has no rights.
	ReadRole string
	// Catalogue is the event types; nil: those that outboxctl registry apply recorded in the database.
	Catalogue *catalogue.Catalogue
	// Redis is where consumers keep their marks; nil: they are not shown.
	Redis *redis.Client
	// IdempotencyTTL is how long they keep them.
	IdempotencyTTL time.Duration
	// Identify returns the user who makes a request. It is the only sign-in.
	Identify func(*http.Request) (Identity, error)
	// Challenge is the WWW-Authenticate of an answer to a user who is not signed in; empty: HTTP
	// Basic.
	Challenge string
	// Enter may answer a request before Identify is asked about it, such as a link that signs a
	// browser in; nil answers none.
	Enter func(w http.ResponseWriter, r *http.Request) (answered bool)
	// Leave signs a browser out, before the page answers that it is; nil: the page does not offer it.
	Leave func(w http.ResponseWriter, r *http.Request)
	// BasePath is the prefix of every address, such as /ops/outbox.
	BasePath string
	// PublicURL is the one address under which the page is served; nil: only names of this machine are
	// answered.
	PublicURL *url.URL
	// TraceURL is the address of a trace, with {trace_id} in it; empty: traces are not linked.
	TraceURL string
	// Label and Color name the installation, so that production looks like production.
	Label, Color string
	// MaxAttempts is the publishers' maximum, for events that have none of their own.
	MaxAttempts int
	// Refresh is the pace of the figures; QueryTimeout limits one statement, and how long a request
	// waits for a connection.
	Refresh, QueryTimeout time.Duration
	// Topics are the names that topics have at the broker, where they are known here.
	Topics map[string]string
	// Backlog asks the broker how many messages wait for a subscription; nil, or
	// errors.ErrUnsupported: nobody can tell.
	Backlog func(ctx context.Context, subscription string) (int64, error)
	// Settings are shown as they are; nil: the page has none to show.
	Settings []Setting
	// Doctor examines the outbox and what it depends on; nil: the page does not offer it.
	Doctor func(context.Context) ([]Finding, error)
	// Metrics gets the page's metrics, and is served as /metrics to signed-in users; nil: there is no
	// such address.
	Metrics *prometheus.Registry
	// Version is shown at the foot.
	Version string
	// Log is told what went wrong, with the path of the request.
	Log func(path string, err error)
}

// New returns the page. It starts to gather figures at once, also while the database is away;
// Shutdown ends that.
func New(cfg Config) (*Handler, error) {
	if cfg.ReadPool == nil || cfg.Identify == nil {
		return nil, errors.New("ui: ReadPool and Identify must be set")
	}
	if (cfg.AllowChanges || cfg.Payloads != "") && cfg.Pool == nil {
		return nil, errors.New("ui: AllowChanges and Payloads need Pool")
	}
	if cfg.Payloads != "" && cfg.Payloads != PayloadsReveal {
		return nil, fmt.Errorf("ui: Payloads %q is not %s", cfg.Payloads, PayloadsReveal)
	}
	if cfg.Color != "" && !slices.Contains(Colors(), cfg.Color) {
		return nil, fmt.Errorf("ui: Color %q is none of %s", cfg.Color, strings.Join(Colors(), ", "))
	}
	cfg.ReadRole = cmp.Or(cfg.ReadRole, DefaultReadRole)
	cfg.Refresh = cmp.Or(cfg.Refresh, DefaultRefresh)
	cfg.QueryTimeout = cmp.Or(cfg.QueryTimeout, DefaultQueryTimeout)
	cfg.IdempotencyTTL = cmp.Or(cfg.IdempotencyTTL, consume.DefaultTTL)
	cfg.MaxAttempts = cmp.Or(cfg.MaxAttempts, dispatch.DefaultMaxAttempts)
	cfg.Challenge = cmp.Or(cfg.Challenge, `Basic realm="outboxctl", charset="UTF-8"`)
	cfg.MaxPlanRows = cmp.Or(cfg.MaxPlanRows, DefaultMaxPlanRows)
	var err error
	if cfg.BasePath, err = httpd.ParseBasePath(cfg.BasePath); err != nil {
		return nil, fmt.Errorf("ui: BasePath: %w", err)
	}
	conn := cfg.ReadPool.Config().ConnConfig
	cfg.Label = cmp.Or(cfg.Label, conn.Database)
	if cfg.Log == nil {
		cfg.Log = func(string, error) {}
	}
	assets, err := readAssets()
	if err != nil {
		return nil, err
	}
	templates, err := parseTemplates(cfg.BasePath, cfg.TraceURL, assets)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		cfg: cfg, assets: assets, templates: templates, place: place(conn), searchRows: searchRows,
		reader: newReader(cfg), turns: make(chan struct{}, cfg.ReadPool.Config().MaxConns), guard: newGuard(cfg),
	}
	if cfg.Redis != nil {
		h.reader.keeper = idem.New(cfg.Redis, cfg.IdempotencyTTL)
	}
	if cfg.Pool != nil {
		h.elsewhere = place(conn) != place(cfg.Pool.Config().ConnConfig)
		h.changes = newChanges(cfg, func() *dlq.Outbox {
			o := dlq.New(cfg.Pool, h.reader.types.Load())
			o.Host, o.Keeper = pgpool.Host(cfg.Pool.Config().ConnConfig), h.reader.keeper
			return o
		})
	}
	h.mux = h.routes()
	h.snapshots = newSnapshots(h.reader, cfg.Refresh, cfg.MaxAttempts)
	if h.snapshots.metrics, err = newMetrics(cfg.Metrics, h.snapshots.age); err != nil {
		return nil, fmt.Errorf("ui: Metrics: %w", err)
	}
	smaller, err := compressed(http.HandlerFunc(h.answer))
	if err != nil {
		return nil, err
	}
	h.served = h.snapshots.metrics.count(smaller)
	watching, stop := context.WithCancel(context.Background())
	h.stop, h.stopped = stop, make(chan struct{})
	go func() { defer close(h.stopped); h.snapshots.run(watching) }()
	return h, nil
}

// Colors are the names that Config.Color knows.
func Colors() []string { return []string{"red", "amber", "green", "blue", "violet", "grey"} }

// place is where the database is, for a person.
func place(c *pgx.ConnConfig) string { return c.Database + " on " + pgpool.Host(c) }
