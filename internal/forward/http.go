// Package forward hands an event to a program in another language: by an HTTP request, or as the
// input of a command. Who calls it decides what an answer means.
package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/emit/wire"
)

const (
	// drainBytes is how much of an answer is read, so that its connection can be used again.
	drainBytes = 64 << 10
	// textBytes is how much of an answer is kept.
	textBytes = 512
)

// Headers whose values are sent as they are.
const (
	HeaderSignature = "webhook-signature"
	HeaderUserAgent = "User-Agent"
)

// Event is what a worker is told of an event, beside its body.
type Event struct {
	ID, Type                       string
	AggregateType, AggregateID     string
	Namespace, TenantID, DedupeKey string
	CreatedAt                      string
	OrderingKey                    string
	Attempt                        int
	Attributes                     map[string]string
	// Trace has traceparent and tracestate; nil means those of Attributes.
	Trace map[string]string
}

// trace is what carries the trace on, by the names of OpenTelemetry.
func (e Event) trace() map[string]string {
	from, trace := e.Trace, map[string]string{}
	if from == nil {
		from = e.Attributes
	}
	for _, name := range []string{"traceparent", "tracestate"} {
		if value := from[name]; value != "" {
			trace[name] = value
		}
	}
	return trace
}

// NewClient makes a client that keeps that many connections to a host open and follows no redirect:
// a POST that does may become a GET, which would be taken for done.
func NewClient(connections int) *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute,
		},
	}
}

// Answer is what a service has said to an event.
type Answer struct {
	Code   int
	Status string // as in "500 Internal Server Error"
	// Text is the beginning of the answer's body.
	Text string
	// RetryAfter is when the service wants the event again; zero where it did not say.
	RetryAfter time.Duration
	// Later: it did say.
	Later bool
}

// OK reports whether the event is done.
func (a Answer) OK() bool { return a.Code >= 200 && a.Code < 300 }

// Err is the answer as an error.
func (a Answer) Err() error {
	if a.Text != "" {
		return fmt.Errorf("the service answered %s: %s", a.Status, a.Text)
	}
	return fmt.Errorf("the service answered %s", a.Status)
}

// A HeaderError is the error of an attribute that cannot be a header.
type HeaderError struct{ Name string }

func (e *HeaderError) Error() string {
	return fmt.Sprintf("the attribute %q cannot be the name of a header", e.Name)
}

// Post sends a body once, with headers whose values are encoded.
func Post(ctx context.Context, client *http.Client, url string, headers map[string]string, body []byte) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Answer{}, withoutURL(err)
	}
	req.GetBody = nil // net/http would send it again by itself, because it has an Idempotency-Key
	for name, value := range headers {
		if !headerName(name) {
			return Answer{}, &HeaderError{name}
		}
		switch name {
		case HeaderSignature, HeaderUserAgent: // ours, and with blanks
			req.Header.Set(name, value)
		default:
			req.Header.Set(name, headerValue(value))
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, fmt.Errorf("post event: %w", withoutURL(err))
	}
	defer resp.Body.Close()
	text, cut := io.ReadAll(io.LimitReader(resp.Body, textBytes))
	if cut == nil {
		_, cut = io.CopyN(io.Discard, resp.Body, drainBytes)
	}
	if cut != nil && !errors.Is(cut, io.EOF) {
		return Answer{}, fmt.Errorf("read the answer %s: %w", resp.Status, withoutURL(cut))
	}
	a := Answer{Code: resp.StatusCode, Status: resp.Status, Text: strings.TrimSpace(string(text))}
	a.RetryAfter, a.Later = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	return a, nil
}

// retryAfter reads seconds or a date.
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(text)
	return max(0, at.Sub(now)), err == nil
}

// withoutURL is a client's error without the address, which may hold a password.
func withoutURL(err error) error {
	var inner interface{ Unwrap() error }
	if errors.As(err, &inner) && inner.Unwrap() != nil {
		return inner.Unwrap()
	}
	return err
}

// CloudEvent is the event as the headers of a CloudEvent in binary mode. What the publisher has
// set already stays.
func (e Event) CloudEvent() map[string]string {
	headers := map[string]string{
		"ce-specversion": "1.0", "ce-id": e.ID, "ce-type": e.Type, "ce-source": "/outbox/" + e.Namespace,
		"ce-time": e.CreatedAt, "ce-subject": e.AggregateID,
		"ce-aggregatetype": e.AggregateType, "ce-aggregateid": e.AggregateID,
		"ce-namespace": e.Namespace, "ce-tenantid": e.TenantID, "ce-dedupekey": e.DedupeKey,
	}
	for name, value := range e.Attributes {
		// Of ours the source alone is the publisher's to choose; a header of the event may have the name
		// of any other.
		if _, ours := headers[strings.ToLower(name)]; strings.HasPrefix(name, "ce-") && (!ours || name == "ce-source") {
			headers[name] = value
		}
	}
	for name, value := range headers {
		if value == "" {
			delete(headers, name)
		}
	}
	headers["Content-Type"], headers["Idempotency-Key"] = "application/json", e.ID
	return headers
}

// Headers is all that is known of the event: those of CloudEvent, every attribute behind outbox-,
// the trace as the event has it, the ordering key and the attempt.
func (e Event) Headers() map[string]string {
	headers := e.CloudEvent()
	for name, value := range e.Attributes {
		if !strings.HasPrefix(name, "ce-") && !strings.EqualFold(name, "content-type") {
			headers[attributeHeader(name)] = value
		}
	}
	maps.Copy(headers, e.trace())
	if e.OrderingKey != "" {
		headers["outbox-ordering-key"] = e.OrderingKey
	}
	headers["outbox-attempt"] = strconv.Itoa(e.Attempt)
	return headers
}

// attributeHeader is the name of an attribute's header. Servers drop names with an underscore:
// those of our own attributes have a hyphen instead, and those of others are encoded, as is a name
// that would be ours.
func attributeHeader(name string) string {
	if wire.IsStandardAttribute(name) {
		return "outbox-" + strings.ReplaceAll(name, "_", "-")
	}
	plain := strings.ToLower(name)
	ours := wire.IsStandardAttribute(strings.ReplaceAll(plain, "-", "_")) || plain == "ordering-key" || plain == "attempt"
	return "outbox-" + encoded(name, func(i int, b byte) bool {
		return b == '%' || b == '_' || i == 0 && ours || !headerName(string(rune(b)))
	})
}

// headerName reports whether net/http takes the name: a token of RFC 9110.
func headerName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// headerValue encodes a value as the HTTP binding of CloudEvents says.
func headerValue(value string) string {
	return encoded(value, func(_ int, b byte) bool { return b <= ' ' || b > '~' || b == '"' || b == '%' })
}

// encoded is a text with some of its bytes, each with its place, percent-encoded.
func encoded(text string, special func(i int, b byte) bool) string {
	var out strings.Builder
	for i, b := range []byte(text) {
		if special(i, b) {
			fmt.Fprintf(&out, "%%%02X", b)
		} else {
			out.WriteByte(b)
		}
	}
	return out.String()
}
