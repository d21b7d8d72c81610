package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/outboxctl/outboxctl/lab/rig"
)

// network is a way from one process to one server that can be disturbed.
type network struct {
	name  string
	proxy *toxiproxy.Proxy
}

// newNetwork opens a proxy in front of an address.
func newNetwork(name, upstream string) (*network, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)
	if err := proxy.Start(); err != nil {
		return nil, fmt.Errorf("open network %s: %w", name, err)
	}
	return &network{name: name, proxy: proxy}, nil
}

func (n *network) addr() string { return n.proxy.Listen }

// through leads a URL through the proxy.
func (n *network) through(raw string) string { return rig.WithHost(raw, n.addr()) }

// disturbance is one way in which a network goes wrong.
type disturbance struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"` // upstream: what the process sends; downstream: what it gets
	Attributes map[string]any `json:"attributes"`
}

// add begins a disturbance; clear ends all of them.
func (n *network) add(d disturbance) error {
	d.Name = d.Type + "-" + d.Stream
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("disturb network %s: %w", n.name, err)
	}
	if _, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
		return fmt.Errorf("disturb network %s: %w", n.name, err)
	}
	return nil
}

func (n *network) clear(ctx context.Context) { n.proxy.Toxics.ResetToxics(ctx) }

func (n *network) close() { n.proxy.Stop() }
