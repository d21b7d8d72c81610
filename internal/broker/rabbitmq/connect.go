package rabbitmq

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/semaphore"

	"github.com/outboxctl/outboxctl/internal/broker"
	engine "github.com/outboxctl/outboxctl/internal/dispatch"
)

// Defaults of Config.
const (
	DefaultURL = "amqp://127.0.0.1:5672/"
	// DefaultExchange is one exchange for each topic, by its name.
	DefaultExchange   = "{topic}"
	DefaultRoutingKey = "{topic}.{event_type}"
)

const (
	// probeTimeout bounds one question to the broker.
	probeTimeout = 5 * time.Second
	dialTimeout  = 5 * time.Second
	// writeTimeout bounds one write: a broker that is short of memory stops reading.
	writeTimeout = 2 * time.Second
	heartbeat    = 10 * time.Second
	// maxChannels is how many calls of Publish are served at once; a connection may have 2047.
	maxChannels = 64
)

// Config is where RabbitMQ is, and where in it events go.
type Config struct {
	// URL is amqp:// or amqps://, with the virtual host as its path. Username goes with Password,
	// which is asked for each connection, and replaces that of the URL.
	URL, Username string
	Password      func() (string, error)
	Files         broker.Files
	// Exchange and RoutingKey are templates: {topic} is the physical topic; {event_type}, {namespace}
	// and {aggregate_type}, in the latter only, are the event's.
	Exchange, RoutingKey string
	// PublishTimeout bounds one Publish; 0 is the dispatcher's default.
	PublishTimeout time.Duration
	// Name of this program, as the broker shows it.
	Name string
}

// Client is one connection to RabbitMQ. It is safe for concurrent use.
type Client struct {
	broker.Plain
	cfg  Config
	tls  *tls.Config
	dial func() (*amqp.Connection, error)
	conn broker.Link[*link]
	// room bounds the channels in use.
	room *semaphore.Weighted
}

// link is a connection with its channels that are not in use.
type link struct {
	conn *amqp.Connection
	free chan *channel
	// blocked is why the broker takes nothing now; empty while it does.
	blocked atomic.Pointer[string]
}

// Connect prepares a client. It opens no connection: the first call does.
func Connect(cfg Config) (*Client, error) {
	cfg.URL = cmp.Or(cfg.URL, DefaultURL)
	if err := CheckURL(cfg.URL); err != nil {
		return nil, err
	}
	conf, err := cfg.Files.Prepare(&cfg.Password)
	if err != nil {
		return nil, err
	}
	c := Over(nil, cfg)
	c.tls = conf
	c.dial = c.connect
	return c, nil
}

// Over is a client on connections that another makes. They are closed by Close.
func Over(dial func() (*amqp.Connection, error), cfg Config) *Client {
	cfg.PublishTimeout = cmp.Or(cfg.PublishTimeout, engine.DefaultPublishTimeout)
	cfg.Exchange = cmp.Or(cfg.Exchange, DefaultExchange)
	cfg.RoutingKey = cmp.Or(cfg.RoutingKey, DefaultRoutingKey)
	c := &Client{cfg: cfg, dial: dial, room: semaphore.NewWeighted(maxChannels)}
	c.conn = broker.Link[*link]{
		Dial:  c.open,
		Alive: func(l *link) bool { return !l.conn.IsClosed() },
		End:   func(l *link) error { return l.conn.CloseDeadline(time.Now().Add(probeTimeout)) },
	}
	return c
}

func (c *Client) open() (*link, error) {
	conn, err := c.dial()
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn, free: make(chan *channel, maxChannels)}
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 1))
	go func() { // ends with the connection
		for b := range blocked {
			if b.Active {
				l.blocked.Store(&b.Reason)
			} else {
				l.blocked.Store(nil)
			}
		}
	}()
	return l, nil
}

func (c *Client) connect() (*amqp.Connection, error) {
	cfg := amqp.Config{
		Heartbeat: heartbeat, Locale: "en_US", TLSClientConfig: c.tls.Clone(),
		Properties: amqp.Table{"connection_name": c.cfg.Name, "product": "outboxctl"},
		Dial: func(network, addr string) (net.Conn, error) {
			conn, err := amqp.DefaultDial(dialTimeout)(network, addr)
			if err != nil {
				return nil, err
			}
			return timed{conn}, nil
		},
	}
	if c.cfg.Username != "" {
		password, err := c.cfg.Password()
		if err != nil {
			return nil, err
		}
		cfg.SASL = []amqp.Authentication{&amqp.PlainAuth{Username: c.cfg.Username, Password: password}}
	}
	return amqp.DialConfig(c.cfg.URL, cfg)
}

// timed ends a write that does not come to an end, and the connection with it.
type timed struct{ net.Conn }

func (t timed) Write(b []byte) (int, error) {
	if err := t.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return t.Conn.Write(b)
}

// Close ends the connection. Publish calls under way fail; end them first.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil && !errors.Is(err, amqp.ErrClosed) {
		return fmt.Errorf("close the connection: %w", err)
	}
	return nil
}

// CheckURL refuses what is no address of a broker.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "amqp" && u.Scheme != "amqps") {
		return errors.New("want amqp://HOST:PORT/VHOST or amqps://HOST:PORT/VHOST")
	}
	return nil
}

// server is the address of the broker, without what is secret in it.
func (c *Client) server() string {
	u, err := url.Parse(c.cfg.URL)
	if err != nil {
		return ""
	}
	if vhost := strings.TrimPrefix(u.Path, "/"); vhost != "" {
		return u.Host + ", virtual host " + vhost
	}
	return u.Host
}
