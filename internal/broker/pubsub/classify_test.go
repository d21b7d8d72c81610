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

	"github.com/outboxctl/outboxctl/dispatch"
)

func TestFailureClassOfEveryCode(t *testing.T) {
	t.Parallel()
	want := map[codes.Code]dispatch.Class{
		codes.Canceled:           dispatch.Retryable,
		codes.Unknown:            dispatch.Retryable,
		codes.InvalidArgument:    dispatch.Refused,
		codes.DeadlineExceeded:   dispatch.Retryable,
		codes.NotFound:           dispatch.Misconfigured,
		codes.AlreadyExists:      dispatch.Retryable,
		codes.PermissionDenied:   dispatch.Misconfigured,
		codes.ResourceExhausted:  dispatch.Retryable,
		codes.FailedPrecondition: dispatch.Misconfigured,
		codes.Aborted:            dispatch.Retryable,
		codes.OutOfRange:         dispatch.Retryable,
		codes.Unimplemented:      dispatch.Retryable,
		codes.Internal:           dispatch.Retryable,
		codes.Unavailable:        dispatch.Retryable,
		codes.DataLoss:           dispatch.Retryable,
		codes.Unauthenticated:    dispatch.Misconfigured,
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
		require.Equal(t, dispatch.Retryable, f.Class)
	}
}
