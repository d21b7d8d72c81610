package pubsub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"cloud.google.com/go/pubsub/v2"
	vkit "cloud.google.com/go/pubsub/v2/apiv1"
	"github.com/googleapis/gax-go/v2"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	engine "github.com/outboxctl/outboxctl/internal/dispatch"
)

// Defaults of Config.
const (
	// probeTimeout bounds one question to the broker.
	probeTimeout = 5 * time.Second
	// DefaultMaxOutstandingBytes is how much may wait for the broker's answer at once.
	DefaultMaxOutstandingBytes = 64 << 20
	// DefaultConcurrency is how many publish requests may be under way at once.
	DefaultConcurrency = 4
)

// emulatorEnv is read by the client library itself.
const emulatorEnv = "PUBSUB_EMULATOR_HOST"

// ErrNoProject means that neither flag, environment nor file names a project.
var ErrNoProject = errors.New("no Pub/Sub project configured")

// Config is where Pub/Sub is and how much may be in flight.
type Config struct {
	// Project is the Google Cloud project, or any name when an emulator is used.
	Project string
	// Emulator is host:port of an emulator: no TLS, no credentials. Empty means
	// the real service with application default credentials.
	Emulator string
	// Endpoint is host:port of one region of the service; empty is the nearest.
	// Messages of an ordering key keep their order only within a region.
	Endpoint string
	// PublishTimeout bounds one Publish call as a whole, isolation of a rejected
	// message included; 0 is the dispatcher's default. Its lease must outlast it.
	PublishTimeout time.Duration
	// MaxOutstandingBytes blocks further requests to a topic while this much is unanswered.
	MaxOutstandingBytes int64
	// Concurrency is the number of requests to one topic under way at once.
	Concurrency int
	// Connections is how many to open; 0 is one. A publisher wants one: each
	// connection learns by itself that the broker is back, so the answer of one
	// proves nothing about the next request.
	Connections int
	// UserAgent is sent with every call.
	UserAgent string
}

func (c Config) withDefaults() Config {
	c.PublishTimeout = cmp.Or(c.PublishTimeout, engine.DefaultPublishTimeout)
	c.MaxOutstandingBytes = cmp.Or(c.MaxOutstandingBytes, DefaultMaxOutstandingBytes)
	c.Concurrency = cmp.Or(c.Concurrency, DefaultConcurrency)
	c.Connections = cmp.Or(c.Connections, 1)
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Project == "" {
		errs = append(errs, ErrNoProject)
	} else if err := ValidateProject(c.Project, c.Emulator != ""); err != nil {
		errs = append(errs, err)
	}
	if c.PublishTimeout < 0 {
		errs = append(errs, errors.New("pub/sub timeouts must be positive"))
	}
	if c.MaxOutstandingBytes < 0 || c.Concurrency < 0 || c.Connections < 0 {
		errs = append(errs, errors.New("pub/sub flow limits must be positive"))
	}
	// The library follows this variable on its own. Publishing production events
	// to an emulator because of a stray variable would lose them.
	if c.Emulator == "" && os.Getenv(emulatorEnv) != "" {
		errs = append(errs, fmt.Errorf("%s is set but no emulator is configured: unset it, or configure the emulator", emulatorEnv))
	}
	return errors.Join(errs...)
}

// Client is one connection to Pub/Sub. It is safe for concurrent use.
type Client struct {
	cfg    Config
	pubsub *pubsub.Client
	// sources are the clients that receive.
	sources []*Client
}

// Connect prepares a client. It opens no connection: the first call does, so an
// unreachable broker is reported by that call and never stops a start.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	client, err := pubsub.NewClientWithConfig(ctx, cfg.Project, clientConfig(), dialOptions(cfg)...)
	if err != nil {
		return nil, fmt.Errorf("connect to pub/sub project %s: %w", cfg.Project, err)
	}
	return &Client{cfg: cfg, pubsub: client}, nil
}

// Over is a client on a connection of another, which closes it. Its retries are
// switched off for the calls of a Publisher.
func Over(client *pubsub.Client) *Client {
	return &Client{cfg: Config{Project: client.Project()}.withDefaults(), pubsub: client}
}

// Project is the project the client works in.
func (c *Client) Project() string { return c.cfg.Project }

// Emulated reports whether the client talks to an emulator.
func (c *Client) Emulated() bool { return c.cfg.Emulator != "" }

// PubSub is the library's client, for receiving messages.
func (c *Client) PubSub() *pubsub.Client { return c.pubsub }

// Close ends the connection. Publish calls under way fail; end them first.
func (c *Client) Close() error {
	var errs []error
	for _, source := range c.sources {
		errs = append(errs, source.Close())
	}
	if err := c.pubsub.Close(); err != nil {
		errs = append(errs, fmt.Errorf("close pub/sub client: %w", err))
	}
	return errors.Join(errs...)
}

// clientConfig switches off every retry that would hide the server's answer.
// The library retries Unavailable and its like until the deadline and then
// reports the deadline; the dispatcher would never learn the code it must act on.
func clientConfig() *pubsub.ClientConfig {
	once := []gax.CallOption{once()}
	return &pubsub.ClientConfig{
		TopicAdminCallOptions: &vkit.TopicAdminCallOptions{
			Publish:                once,
			GetTopic:               once,
			CreateTopic:            once,
			ListTopics:             once,
			ListTopicSubscriptions: once,
			TestIamPermissions:     once,
		},
		SubscriptionAdminCallOptions: &vkit.SubscriptionAdminCallOptions{
			CreateSubscription: once,
			GetSubscription:    once,
		},
	}
}

// once keeps one call from being repeated.
func once() gax.CallOption {
	return gax.WithRetry(func() gax.Retryer { return gax.OnCodes(nil, gax.Backoff{}) })
}

func dialOptions(cfg Config) []option.ClientOption {
	opts := []option.ClientOption{
		// Without a cap gRPC waits up to two minutes before it dials a broker that
		// came back; the dispatcher's own probe already spaces the attempts.
		option.WithGRPCDialOption(grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		})),
		// The timeout also limits how long the kernel keeps unacknowledged data, so
		// a connection into a black hole dies instead of swallowing every request.
		option.WithGRPCDialOption(grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 5 * time.Minute, Timeout: 15 * time.Second,
		})),
		option.WithGRPCConnectionPool(cfg.Connections),
		// Tracing of every RPC costs more than building the request.
		option.WithTelemetryDisabled(),
	}
	if cfg.UserAgent != "" {
		opts = append(opts, option.WithUserAgent(cfg.UserAgent))
	}
	if cfg.Endpoint != "" && cfg.Emulator == "" {
		opts = append(opts, option.WithEndpoint(cfg.Endpoint))
	}
	if cfg.Emulator != "" {
		opts = append(opts,
			option.WithEndpoint(cfg.Emulator),
			option.WithoutAuthentication(),
			option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())),
		)
	}
	return opts
}
