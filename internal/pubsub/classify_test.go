package pubsub

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/googleapis/gax-go/v2/apierror"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/outboxctl/outboxctl/internal/outbox"
)

func TestFailureClassOfEveryCode(t *testing.T) {
	t.Parallel()
	want := map[codes.Code]outbox.Class{
		codes.Canceled:           outbox.Retryable,
		codes.Unknown:            outbox.Retryable,
		codes.InvalidArgument:    outbox.Rejected,
		codes.DeadlineExceeded:   outbox.Retryable,
		codes.NotFound:           outbox.Misconfigured,
		codes.AlreadyExists:      outbox.Retryable,
		codes.PermissionDenied:   outbox.Misconfigured,
		codes.ResourceExhausted:  outbox.Retryable,
		codes.FailedPrecondition: outbox.Misconfigured,
		codes.Aborted:            outbox.Retryable,
		codes.OutOfRange:         outbox.Retryable,
		codes.Unimplemented:      outbox.Retryable,
		codes.Internal:           outbox.Retryable,
		codes.Unavailable:        outbox.Retryable,
		codes.DataLoss:           outbox.Retryable,
		codes.Unauthenticated:    outbox.Misconfigured,
	}
	require.Len(t, want, int(codes.Unauthenticated), "a code is missing from the table")
	for code, class := range want {
		plain := status.Error(code, "no")
		wrapped, ok := apierror.FromError(plain)
		require.True(t, ok)
		for _, err := range []error{plain, wrapped, fmt.Errorf("publish: %w", plain)} {
			f := failure(err)
			require.Equal(t, class, f.Class, "%s as %T", code, err)
			require.Equal(t, code.String(), f.Code)
			require.ErrorIs(t, f, err)
		}
	}
}

func TestFailureWithoutStatus(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		code codes.Code
	}{
		{context.Canceled, codes.Canceled},
		{fmt.Errorf("wait for room: %w", context.DeadlineExceeded), codes.DeadlineExceeded},
		{errors.New("anything"), codes.Unknown},
	} {
		f := failure(tc.err)
		require.Equal(t, tc.code.String(), f.Code)
		require.Equal(t, outbox.Retryable, f.Class)
	}
}
