package pubsub

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/dispatch"
)

// failure gives an error of the client library the class the dispatcher acts on.
// The table from code to class is dispatch.ClassifyCode; here an error only gets
// its code.
func failure(err error) *dispatch.Failure {
	return dispatch.NewFailure(codeOf(err).String(), err)
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

// misconfigured is a failure found here, before the broker could answer with it.
func misconfigured(code codes.Code, err error) *dispatch.Failure {
	return &dispatch.Failure{Class: dispatch.Misconfigured, Code: code.String(), Err: err}
}
