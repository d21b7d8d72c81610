package nats

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// The codes of failures that have no number of JetStream's. They are metric labels.
const (
	codeMissing    = "no_responders"
	codeDenied     = "permissions_violation"
	codeAuth       = "authorization"
	codeMaxPayload = "max_payload"
	codeHeader     = "bad_header"
	codeSubject    = "bad_subject"
)

// errNoStream is what "no responders" means to us.
var errNoStream = errors.New("no stream takes the subject")

// failure gives an error of the client library the class the dispatcher acts on.
func failure(err error) *dispatch.Failure {
	class, code := classOf(err)
	if code == codeMissing {
		err = fmt.Errorf("%w: %w", errNoStream, err)
	}
	return dispatch.NewFailure(class, code, err)
}

// classOf is the one table from NATS's answers to the dispatcher's classes. What is not in it
// is retryable: waiting is safe, dead-lettering a good event is not.
func classOf(err error) (dispatch.Class, string) {
	if api := apiError(err); api != nil {
		return classOfCode(api.ErrorCode, api.Description), strconv.Itoa(int(api.ErrorCode))
	}
	for _, row := range []struct {
		class dispatch.Class
		code  string
		errs  []error
	}{
		{dispatch.Misconfigured, codeMissing, []error{jetstream.ErrNoStreamResponse, nats.ErrNoResponders, jetstream.ErrStreamNotFound}},
		{dispatch.Misconfigured, codeDenied, []error{nats.ErrPermissionViolation}},
		{dispatch.Misconfigured, codeAuth, []error{
			nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired,
			jetstream.ErrJetStreamNotEnabled, jetstream.ErrJetStreamNotEnabledForAccount,
		}},
		{dispatch.Misconfigured, codeSubject, []error{nats.ErrBadSubject}},
		{dispatch.Refused, codeMaxPayload, []error{nats.ErrMaxPayload}},
		{dispatch.Refused, codeHeader, []error{nats.ErrBadHeaderMsg}},
		{dispatch.Retryable, broker.CodeTimeout, []error{nats.ErrTimeout, jetstream.ErrAsyncPublishTimeout}},
	} {
		for _, known := range row.errs {
			if errors.Is(err, known) {
				return row.class, row.code
			}
		}
	}
	return broker.ClassOf(err)
}

// classOfCode knows the numbers with which JetStream answers.
func classOfCode(code jetstream.ErrorCode, description string) dispatch.Class {
	switch code {
	case 10054, 10097: // message, headers larger than the stream takes
		return dispatch.Refused
	case 10059, // no such stream
		10039, 10076, // no JetStream for the account, on the server
		10109,               // the stream is sealed
		10002, 10028, 10047: // the account's or the server's storage is used up
		return dispatch.Misconfigured
	case 10077: // not stored: the stream is full and keeps what it has, or the disk failed
		if strings.HasPrefix(description, "maximum ") {
			return dispatch.Misconfigured
		}
	}
	return dispatch.Retryable
}

func apiError(err error) *jetstream.APIError {
	var js jetstream.JetStreamError
	if errors.As(err, &js) {
		return js.APIError()
	}
	return nil
}

// explain describes in our words why a request was not answered, or refused.
func explain(err error) string {
	switch class, code := classOf(err); {
	case code == codeMissing:
		return "no stream takes the subject"
	case code == codeDenied:
		return "the account may not do that"
	case code == codeAuth:
		return "it does not accept the account's credentials, or has no JetStream for it"
	case code == broker.CodeTLS:
		return "it does not prove who it is: " + err.Error()
	case class == dispatch.Retryable && apiError(err) == nil:
		return "it does not answer"
	}
	return err.Error()
}
