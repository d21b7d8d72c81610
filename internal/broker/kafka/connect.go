package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/outboxctl/outboxctl/internal/broker"
	engine "github.com/outboxctl/outboxctl/internal/dispatch"
)

const (
	// DefaultBrokers is where one listens that nobody has told otherwise.
	DefaultBrokers = "127.0.0.1:9092"
	// probeTimeout bounds one question to the cluster.
	probeTimeout = 5 * time.Second
	dialTimeout  = 3 * time.Second
	// metadataAge is how long the partitions of a topic are believed: a partition that moved is told
	// by the answer to a request.
	metadataAge = 10 * time.Second
)

// compressions are those of the setting.
func compressions() []string { return []string{"none", "gzip", "snappy", "lz4", "zstd"} }

// mechanisms are those of SASL.
func mechanisms() []string { return []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} }

// Config is where Kafka is.
type Config struct {
	// Brokers to begin with, with commas between them.
	Brokers string
	// Mechanism of SASL; empty means none. Username goes with Password, which is asked for each
	// connection.
	Mechanism, Username string
	Password            func() (string, error)
	TLS                 bool
	Files               broker.Files
	// Compression of batches; empty is zstd.
	Compression string
	// LeaderOnly waits for the partition's leader alone, not for all its replicas in sync.
	LeaderOnly bool
	// Partitions and Replication of the topics that Ensure creates; 0 is the cluster's default.
	Partitions, Replication int
	// PublishTimeout bounds one Publish; 0 is the dispatcher's default.
	PublishTimeout time.Duration
	// Name of this program, as the brokers see it.
	Name string
}

// Client is a client of one cluster. It is safe for concurrent use.
type Client struct {
	broker.Plain
	cfg        Config
	kgo        *kgo.Client
	ours       bool // to close
	opts       []kgo.Opt
	compressor kgo.Compressor

	mu          sync.Mutex // of what follows
	partitioner kgo.TopicPartitioner
	turn        int
	// maxBytes is what topics take in a batch, of those that told it.
	maxBytes map[string]int
}

// Connect prepares a client. It opens no connection: the first call does.
func Connect(cfg Config) (*Client, error) {
	cfg.Brokers = cmp.Or(cfg.Brokers, DefaultBrokers)
	opts := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(cfg.Brokers, ",")...), kgo.DialTimeout(dialTimeout),
		// Questions are asked again by whoever wants the answer.
		kgo.RequestRetries(0), kgo.RetryTimeout(probeTimeout), kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if cfg.Name != "" {
		name, version, _ := strings.Cut(cfg.Name, "/")
		opts = append(opts, kgo.ClientID(name), kgo.SoftwareNameAndVersion(name, cmp.Or(version, "dev")))
	}
	mechanism, err := cfg.mechanism()
	if err != nil {
		return nil, err
	}
	if mechanism != nil {
		opts = append(opts, kgo.SASL(mechanism))
	}
	conf, err := cfg.Files.TLS()
	if err != nil {
		return nil, err
	}
	if cfg.TLS || cfg.Files.CA != "" || cfg.Files.Cert != "" {
		opts = append(opts, kgo.DialTLSConfig(conf))
	}
	if err := CheckBrokers(cfg.Brokers); err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("prepare the client: %w", err)
	}
	c, err := over(client, cfg)
	if err != nil {
		client.Close()
		return nil, err
	}
	c.ours, c.opts = true, opts
	return c, nil
}

// Over is a client on one of another, which closes it.
func Over(client *kgo.Client) (*Client, error) { return over(client, Config{}) }

func over(client *kgo.Client, cfg Config) (*Client, error) {
	cfg.PublishTimeout = cmp.Or(cfg.PublishTimeout, engine.DefaultPublishTimeout)
	c := &Client{cfg: cfg, kgo: client, partitioner: kgo.StickyKeyPartitioner(nil).ForTopic(""), maxBytes: map[string]int{}}
	codecs := []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}
	at := slices.Index(compressions(), cmp.Or(cfg.Compression, "zstd"))
	if at < 0 {
		return nil, fmt.Errorf("want one of %s, not %q", strings.Join(compressions(), ", "), cfg.Compression)
	}
	var err error
	c.compressor, err = kgo.DefaultCompressor(codecs[at])
	return c, err
}

func (c Config) mechanism() (sasl.Mechanism, error) {
	if c.Mechanism == "" {
		if c.Username != "" {
			return nil, errors.New("a user name needs a SASL mechanism: " + strings.Join(mechanisms(), ", "))
		}
		return nil, nil
	}
	password := func() (string, error) {
		if c.Password == nil {
			return "", nil
		}
		return c.Password()
	}
	auth := func(context.Context) (scram.Auth, error) {
		pass, err := password()
		return scram.Auth{User: c.Username, Pass: pass}, err
	}
	if _, err := password(); err != nil {
		return nil, err
	}
	switch c.Mechanism {
	case "PLAIN":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			pass, err := password()
			return plain.Auth{User: c.Username, Pass: pass}, err
		}), nil
	case "SCRAM-SHA-256":
		return scram.Sha256(auth), nil
	case "SCRAM-SHA-512":
		return scram.Sha512(auth), nil
	}
	return nil, fmt.Errorf("want one of %s, not %q", strings.Join(mechanisms(), ", "), c.Mechanism)
}

// Close ends the connections. Publish calls under way fail; end them first.
func (c *Client) Close() error {
	if c.ours {
		c.kgo.Close()
	}
	return nil
}

// CheckBrokers refuses what is no list of addresses.
func CheckBrokers(raw string) error {
	for part := range strings.SplitSeq(raw, ",") {
		if host, port, err := net.SplitHostPort(part); err != nil || host == "" || port == "" {
			return errors.New("want HOST:PORT, several with commas between them")
		}
	}
	return nil
}
