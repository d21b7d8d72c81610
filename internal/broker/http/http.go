// Package http hands each event to an HTTP service, one request each: a webhook sender, and a way
// to do without a broker. The request is signed as Standard Webhooks says where a secret is set.
package http

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/emit/wire"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/broker/callback"
	"github.com/outboxctl/outboxctl/internal/forward"
)

// Defaults of Config.
const (
	DefaultTimeout  = 10 * time.Second
	DefaultParallel = 8
)

// Config is where events go, and how.
type Config struct {
	// URL is where events of a topic go that has no URL as its name. In its path and its query
	// {topic}, {event_type} and {namespace} stand for the event's.
	URL string
	// Secrets sign each request, the newest first; none: it is not signed. One that begins with
	// whsec_ is base64 behind it, as Standard Webhooks writes them.
	Secrets []string
	// Timeout bounds one request, Parallel is how many of a topic are under way at once.
	Timeout  time.Duration
	Parallel int
	// UserAgent names this program to the service.
	UserAgent string
}

// Client hands events to services.
type Client struct {
	callback.Base
	cfg    Config
	keys   [][]byte
	client *http.Client
}

// New checks a configuration. It makes no connection.
func New(cfg Config) (*Client, error) {
	cfg.Timeout, cfg.Parallel = cmp.Or(max(0, cfg.Timeout), DefaultTimeout), cmp.Or(max(0, cfg.Parallel), DefaultParallel)
	c := &Client{cfg: cfg, client: forward.NewClient(cfg.Parallel)}
	c.Base = callback.Base{Ready: c.ready, Limits: limits()}
	if cfg.URL != "" {
		if err := CheckURL(cfg.URL); err != nil {
			return nil, fmt.Errorf("http.url: %w", err)
		}
	}
	for _, secret := range cfg.Secrets {
		key := []byte(secret)
		if text, coded := strings.CutPrefix(secret, "whsec_"); coded {
			var err error
			if key, err = base64.StdEncoding.DecodeString(text); err != nil {
				return nil, errors.New("http.secret: what follows whsec_ is not base64")
			}
		}
		c.keys = append(c.keys, key)
	}
	return c, nil
}

// Close gives back connections that nobody uses.
func (c *Client) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

// String names the service, without a password in its URL.
func (c *Client) String() string {
	if u, err := url.Parse(c.cfg.URL); err == nil && u.Host != "" {
		return "the HTTP service at " + u.Host
	}
	return "the HTTP services of the topics"
}

// CheckURL refuses what is no address of a service.
func CheckURL(raw string) error {
	u, err := url.Parse(strings.NewReplacer("{", "", "}", "").Replace(raw))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("want an URL such as http://127.0.0.1:8000/events/{event_type}")
	case strings.ContainsAny(hostOf(raw), "{}"):
		return errors.New("{topic}, {event_type} and {namespace} can stand in the path and the query alone")
	}
	rest := strings.NewReplacer("{topic}", "", "{event_type}", "", "{namespace}", "").Replace(raw)
	if strings.ContainsAny(rest, "{}") {
		return errors.New("knows {topic}, {event_type} and {namespace} in braces, and nothing else")
	}
	return nil
}

// hostOf is what stands between the scheme and the path.
func hostOf(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// NewPublisher hands over the events of logical topics. A physical name that is a URL is where
// they go.
func (c *Client) NewPublisher(topics map[string]string) dispatch.Publisher {
	return c.Base.NewPublisher(topics, c.cfg.Parallel, c.cfg.Timeout, c.post)
}

// limits are what usual servers take.
func limits() wire.Limits {
	return wire.Limits{MessageBytes: 10_000_000, Attributes: 100, AttributeNameBytes: 256, AttributeValueBytes: 4096}
}

// urlOf is the template of a physical topic's URL.
func (c *Client) urlOf(physical string) (string, error) {
	if strings.Contains(physical, "://") {
		return physical, CheckURL(physical)
	}
	if c.cfg.URL == "" {
		return "", fmt.Errorf("topic %s has no URL: set http.url", physical)
	}
	return c.cfg.URL, nil
}

// ready connects, and sends nothing: a service has no request that all of them answer without doing
// something.
func (c *Client) ready(ctx context.Context, physical string) error {
	raw, err := c.urlOf(physical)
	if err != nil {
		return dispatch.NewFailure(dispatch.Misconfigured, callback.CodeMissing, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	addr, err := c.addr(raw)
	if err != nil {
		return failure(err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return failure(err)
	}
	return conn.Close()
}

// addr is where a request to the URL connects to: the service, or the proxy on the way.
func (c *Client) addr(raw string) (string, error) {
	u, err := url.Parse(fill(raw, "x", dispatch.Message{EventType: "x", Namespace: "x"}))
	if err != nil {
		return "", err
	}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); err == nil && proxy != nil {
		u = proxy
	}
	if u.Port() != "" {
		return u.Host, nil
	}
	port := map[string]string{"https": "443"}[u.Scheme]
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}

// fill puts an event into a URL.
func fill(raw, topic string, m dispatch.Message) string {
	path, query, found := strings.Cut(raw, "?")
	with := func(text string, escape func(string) string) string {
		return strings.NewReplacer("{topic}", escape(topic), "{event_type}", escape(m.EventType),
			"{namespace}", escape(m.Namespace)).Replace(text)
	}
	path = with(path, url.PathEscape)
	if !found {
		return path
	}
	return path + "?" + with(query, url.QueryEscape)
}

// post hands one event to the service.
func (c *Client) post(ctx context.Context, physical string, m dispatch.Message) error {
	raw, err := c.urlOf(physical)
	if err != nil {
		return dispatch.NewFailure(dispatch.Misconfigured, callback.CodeMissing, err)
	}
	answer, err := forward.Post(ctx, c.client, fill(raw, physical, m), c.headers(m, time.Now()), m.Data)
	if err != nil {
		return failure(err)
	}
	return verdict(answer)
}

// headers are those of the event and of Standard Webhooks.
func (c *Client) headers(m dispatch.Message, now time.Time) map[string]string {
	headers := callback.Event(m).Headers()
	if c.cfg.UserAgent != "" {
		headers[forward.HeaderUserAgent] = c.cfg.UserAgent
	}
	at := strconv.FormatInt(now.Unix(), 10)
	headers["webhook-id"], headers["webhook-timestamp"] = m.EventID, at
	var signatures []string
	for _, key := range c.keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", m.EventID, at)
		mac.Write(m.Data)
		signatures = append(signatures, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	if signatures != nil {
		headers[forward.HeaderSignature] = strings.Join(signatures, " ")
	}
	return headers
}

// The codes of failures that have no status. They are metric labels.
const (
	codeNoHost = "no_such_host"
	codeCut    = "no_answer"
	codeHeader = "header"
)

// failure is what it means that no answer came.
func failure(err error) error {
	var (
		dns    *net.DNSError
		cert   *tls.CertificateVerificationError
		record tls.RecordHeaderError
		op     *net.OpError
		alert  tls.AlertError
	)
	switch {
	case errors.As(err, new(*forward.HeaderError)):
		return dispatch.NewFailure(dispatch.Refused, codeHeader, err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return dispatch.NewFailure(dispatch.Misconfigured, codeNoHost, err)
	case errors.As(err, &cert), errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return dispatch.NewFailure(dispatch.Misconfigured, broker.CodeTLS, err)
	case errors.As(err, &op) && op.Op == "dial":
		return dispatch.NewFailure(dispatch.Retryable, broker.CodeConnection, err)
	case errors.Is(err, context.DeadlineExceeded):
		return dispatch.NewFailure(dispatch.Retryable, broker.CodeTimeout, dispatch.Answered(fmt.Errorf("no answer in time: %w", err)))
	}
	return dispatch.NewFailure(dispatch.Retryable, codeCut, err)
}

// verdict is what an answer means for the event and its topic.
func verdict(a forward.Answer) error {
	if a.OK() {
		return nil
	}
	code, err := strconv.Itoa(a.Code), a.Err()
	switch a.Code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return dispatch.NewFailure(dispatch.Refused, code, err)
	case http.StatusNotFound, http.StatusGone, http.StatusUnauthorized, http.StatusForbidden, http.StatusInsufficientStorage:
		return dispatch.NewFailure(dispatch.Misconfigured, code, err)
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		// The service is away, or has enough: that is about all events.
	default:
		if a.Code >= 300 && a.Code < 400 {
			return dispatch.NewFailure(dispatch.Misconfigured, code, fmt.Errorf("%w; redirects are not followed", err))
		}
		err = dispatch.Answered(err)
	}
	if a.Later {
		err = dispatch.RetryAfter(err, a.RetryAfter)
	}
	return dispatch.NewFailure(dispatch.Retryable, code, err)
}
