package pubsub

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/dispatch"
)

// failure gives an error of the client library the class the dispatcher acts on.
func failure(err error) *dispatch.Failure {
	code := codeOf(err)
	return dispatch.NewFailure(classOf(code), code.String(), err)
}

// classOf is the one table from Pub/Sub's codes to the dispatcher's classes. A
// code that is not in it is retryable: waiting is safe, dead-lettering a good
// event is not.
func classOf(code codes.Code) dispatch.Class {
	switch code {
	case codes.InvalidArgument:
		return dispatch.Refused
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition:
		return dispatch.Misconfigured
	default:
		return dispatch.Retryable
	}
}

// codeOf reads the gRPC code. A context error without a status comes from our own
// side: waiting for room, or a call that never left.
func codeOf(err error) codes.Code {
	var withStatus interface{ GRPCStatus() *status.Status }
	switch {
	case errors.As(err, &withStatus):
		return withStatus.GRPCStatus().Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return codes.Canceled
	default:
		return codes.Unknown
	}
}

// explain describes in our words why a request was not answered, or refused.
func explain(err error) string {
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return "it does not answer"
	case codes.Unauthenticated:
		return "it does not accept the account's credentials"
	case codes.PermissionDenied:
		return "the account may not do that"
	case codes.NotFound:
		return "it has no such project, topic or subscription"
	default:
		return err.Error()
	}
}
