package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/outboxctl/outboxctl/consume"
)

const (
	// exitMalformed is sysexits' EX_DATAERR: the input was incorrect.
	exitMalformed = 65
	// killDelay is how long a process has to end after it was asked to.
	killDelay = 5 * time.Second
	// answerBytes is how much of an answer is read, so that its connection can be used again.
	answerBytes = 64 << 10
)

// PostTo hands events to an HTTP service, one request each: 2xx means done, 400 and 422 that no retry helps, anything else
// that the event should come again, after the time in Retry-After where the answer has one.
func PostTo(url string, connections int) consume.Handler {
	client := &http.Client{
		// A POST that follows a redirect may become a GET, which would be taken for done.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute},
	}
	return func(ctx context.Context, e consume.Event) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(e.Body))
		if err != nil {
			return err
		}
		for name, value := range cloudEvent(e) {
			if !headerName(name) {
				return consume.Malformed(fmt.Errorf("the attribute %q cannot be the name of a header", name))
			}
			req.Header.Set(name, headerValue(value))
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", e.ID.String())
		resp, err := client.Do(req)
		if err != nil {
			return fmt.Errorf("post event: %w", withoutURL(err))
		}
		defer resp.Body.Close()
		_, _ = io.CopyN(io.Discard, resp.Body, answerBytes)
		return verdict(resp)
	}
}

// verdict is what an answer means for the event.
func verdict(resp *http.Response) error {
	answered := fmt.Errorf("the service answered %s", resp.Status)
	switch {
	case resp.StatusCode >= 200 && resp.StatusCode < 300:
		return nil
	case resp.StatusCode == http.StatusBadRequest, resp.StatusCode == http.StatusUnprocessableEntity:
		return consume.Malformed(answered)
	}
	if after, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
		return errors.Join(answered, consume.RetryAfter(after))
	}
	return answered
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

// cloudEvent is the event as a CloudEvent in binary mode. What the publisher has set already stays.
func cloudEvent(e consume.Event) map[string]string {
	headers := map[string]string{
		"ce-specversion": "1.0", "ce-id": e.ID.String(), "ce-type": e.Type, "ce-source": "/outbox/" + e.Namespace,
		"ce-time": e.Attributes[consume.AttrCreatedAt], "ce-subject": e.AggregateID,
		"ce-aggregatetype": e.AggregateType, "ce-aggregateid": e.AggregateID,
		"ce-namespace": e.Namespace, "ce-tenantid": e.TenantID, "ce-dedupekey": e.DedupeKey,
	}
	for name, value := range e.Attributes {
		// Of ours the source alone is the publisher's to choose; a header of the event may have the name of any other.
		if _, ours := headers[strings.ToLower(name)]; strings.HasPrefix(name, "ce-") && (!ours || name == "ce-source") {
			headers[name] = value
		}
	}
	for name, value := range headers {
		if value == "" {
			delete(headers, name)
		}
	}
	return headers
}

// headerName reports whether net/http takes the name: a token of RFC 9110.
func headerName(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// headerValue encodes a value as the HTTP binding of CloudEvents says.
func headerValue(value string) string {
	var text strings.Builder
	for _, b := range []byte(value) {
		if b <= ' ' || b > '~' || b == '"' || b == '%' {
			fmt.Fprintf(&text, "%%%02X", b)
			continue
		}
		text.WriteByte(b)
	}
	return text.String()
}

// RunCommand hands events to a command of the shell, one process each: the body is its input, the attributes are in its
// environment. Exit code 0 means done, 65 that no retry helps, any other that the event should come again. What it
// prints goes to out.
func RunCommand(command, consumer string, out io.Writer) consume.Handler {
	return func(ctx context.Context, e consume.Event) error {
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(e.Body), out, out
		env := []string{
			"OUTBOX_CONSUMER=" + consumer, "OUTBOX_EVENT_ID=" + e.ID.String(), "OUTBOX_EVENT_TYPE=" + e.Type,
			"OUTBOX_AGGREGATE_TYPE=" + e.AggregateType, "OUTBOX_AGGREGATE_ID=" + e.AggregateID, "OUTBOX_NAMESPACE=" + e.Namespace,
			"OUTBOX_TENANT_ID=" + e.TenantID, "OUTBOX_DEDUPE_KEY=" + e.DedupeKey, "OUTBOX_CREATED_AT=" + e.Attributes[consume.AttrCreatedAt],
		}
		for _, entry := range env {
			if name, value, _ := strings.Cut(entry, "="); strings.ContainsRune(value, 0) {
				return consume.Malformed(fmt.Errorf("a NUL byte cannot be passed to the command in %s", name))
			}
		}
		cmd.Env = append(os.Environ(), env...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = killDelay
		err := cmd.Run()
		var exit *exec.ExitError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &exit) && exit.ExitCode() == exitMalformed:
			return consume.Malformed(fmt.Errorf("the command ended with exit code %d", exitMalformed))
		}
		return fmt.Errorf("run the command: %w", err)
	}
}
