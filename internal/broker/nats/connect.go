package nats

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxctl/outboxctl/internal/broker"
	engine "github.com/outboxctl/outboxctl/internal/dispatch"
)

const (
	// DefaultURL is where a server listens that nobody has told otherwise.
	DefaultURL = "nats://127.0.0.1:4222"
	// probeTimeout bounds one question to the server.
	probeTimeout = 5 * time.Second
	// dialTimeout bounds one attempt to connect to one of the servers.
	dialTimeout = 3 * time.Second
	// writeTimeout bounds one write to the connection: a server that no longer reads must not
	// hold a Publish for longer.
	writeTimeout = 2 * time.Second
	// maxPending is how many messages may wait for their acknowledgement: more than a dispatcher
	// has in flight.
	maxPending = 16_000
)

// Config is where NATS is.
type Config struct {
	// URL lists the servers, with commas between them.
	URL string
	// CredsFile holds a JWT and its seed. Username goes with Password, which is asked for each
	// connection.
	CredsFile, Username string
	Password            func() (string, error)
	Files               broker.Files
	// NoDedupe leaves out the header by which a stream recognises what it has stored already.
	NoDedupe bool
	// Replicas of the streams that Ensure creates; 0 is 1.
	Replicas int
	// PublishTimeout bounds one Publish; 0 is the dispatcher's default.
	PublishTimeout time.Duration
	// Name of this program, as the server's monitoring shows it.
	Name string
}

// Client is one connection to NATS. It is safe for concurrent use.
type Client struct {
	broker.Plain
	cfg    Config
	tls    *tls.Config
	denied denials
	conn   broker.Link[*link]
}

// link is a connection and what is built on it.
type link struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

// Connect prepares a client. It opens no connection: the first call does.
func Connect(cfg Config) (*Client, error) {
	cfg.URL = cmp.Or(cfg.URL, DefaultURL)
	cfg.PublishTimeout = cmp.Or(cfg.PublishTimeout, engine.DefaultPublishTimeout)
	cfg.Replicas = cmp.Or(cfg.Replicas, 1)
	if err := CheckURL(cfg.URL); err != nil {
		return nil, err
	}
	if cfg.CredsFile != "" && cfg.Username != "" {
		return nil, errors.New("give credentials or a user name, not both")
	}
	conf, err := cfg.Files.Prepare(&cfg.Password)
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, tls: conf}
	c.conn = broker.Link[*link]{
		Dial:  c.dial,
		Alive: func(l *link) bool { return !l.conn.IsClosed() },
		End:   func(l *link) error { l.conn.Close(); return nil },
	}
	return c, nil
}

// Over is a client on a connection of another, which closes it. It must not buffer what is
// published while it is away: that would be stored after Publish had given it up.
func Over(conn *nats.Conn) (*Client, error) {
	if conn.Opts.ReconnectBufSize >= 0 {
		return nil, errors.New("open the NATS connection with nats.ReconnectBufSize(-1): " +
			"what it buffers while it is away would be stored after it was given up")
	}
	c := &Client{cfg: Config{PublishTimeout: engine.DefaultPublishTimeout, Replicas: 1}}
	before := conn.ErrorHandler()
	conn.SetErrorHandler(func(conn *nats.Conn, sub *nats.Subscription, err error) {
		c.denied.heard(err)
		if before != nil {
			before(conn, sub, err)
		}
	})
	l, err := c.over(conn)
	if err != nil {
		return nil, err
	}
	c.conn = broker.Link[*link]{
		Dial:  func() (*link, error) { return l, nil },
		Alive: func(*link) bool { return true }, // what is wrong with it is said by the first use
		End:   func(*link) error { return nil },
	}
	return c, nil
}

func (c *Client) over(conn *nats.Conn) (*link, error) {
	js, err := jetstream.New(conn,
		jetstream.WithPublishAsyncMaxPending(maxPending), jetstream.WithPublishAsyncTimeout(c.cfg.PublishTimeout))
	if err != nil {
		return nil, fmt.Errorf("use JetStream: %w", err)
	}
	return &link{conn: conn, js: js}, nil
}

func (c *Client) dial() (*link, error) {
	conn, err := nats.Connect(c.cfg.URL, c.options()...)
	if err != nil {
		return nil, err
	}
	return c.over(conn)
}

func (c *Client) options() []nats.Option {
	opts := []nats.Option{
		nats.Name(c.cfg.Name),
		nats.ReconnectBufSize(-1), // see Over
		nats.MaxReconnects(-1),
		nats.ReconnectWait(200 * time.Millisecond),
		nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
		nats.Timeout(dialTimeout),
		nats.FlusherTimeout(writeTimeout),
		// A server that vanished without a word is noticed by these.
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { c.denied.heard(err) }),
	}
	if c.cfg.Files.CA != "" || c.cfg.Files.Cert != "" {
		opts = append(opts, nats.Secure(c.tls))
	}
	if c.cfg.CredsFile != "" {
		opts = append(opts, nats.UserCredentials(c.cfg.CredsFile))
	}
	if c.cfg.Username != "" {
		opts = append(opts, nats.UserInfoHandler(func() (string, string) {
			password, _ := c.cfg.Password() // a file that is gone is an empty password, which the server refuses
			return c.cfg.Username, password
		}))
	}
	return opts
}

// Close ends the connection. Publish calls under way fail; end them first.
func (c *Client) Close() error { return c.conn.Close() }

// servers are the addresses of the servers, without what is secret in them.
func (c *Client) servers() string {
	list := strings.Split(c.cfg.URL, ",")
	for i, raw := range list {
		if u, err := url.Parse(strings.TrimSpace(raw)); err == nil {
			list[i] = u.Host
		}
	}
	return strings.Join(list, ", ")
}

// CheckURL refuses what is no list of servers.
func CheckURL(raw string) error {
	for part := range strings.SplitSeq(raw, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil || u.Host == "" {
			return errors.New("want nats://HOST:PORT or tls://HOST:PORT, several with commas between them")
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return fmt.Errorf("want a URL that begins with nats:// or tls://, not %s://", u.Scheme)
		}
	}
	return nil
}

// denials tells those who wait for an answer that there will be none: a server says of a
// publish that it does not permit only so much, and to nobody in particular.
type denials struct {
	mu      sync.Mutex
	waiting map[*denial]struct{}
}

// denial is one who waits. C is closed when what it waits for was denied.
type denial struct {
	subject string
	err     error
	c       chan struct{}
}

// wait registers until done is called.
func (d *denials) wait(subject string) (w *denial, done func()) {
	w = &denial{subject: subject, c: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = make(map[*denial]struct{})
	}
	d.waiting[w] = struct{}{}
	return w, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, w)
	}
}

// heard takes an asynchronous error of the connection, as
//
//	nats: permissions violation: Permissions Violation for Publish to "shop.orders"
//
// One that is about another thing than publishing, as the subscription on which answers
// arrive, concerns everybody.
func (d *denials) heard(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	_, subject, _ := strings.Cut(err.Error(), `Publish to "`)
	subject, _, _ = strings.Cut(subject, `"`)
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiting {
		if subject == "" || w.subject == subject {
			w.err = err
			close(w.c)
			delete(d.waiting, w)
		}
	}
}
