// Package wait waits with a context.
package wait

import (
	"context"
	"errors"
	"time"
)

// patience is how long Patiently asks.
const patience = time.Minute

// For waits for d. When ctx ends first it returns the context's error.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Patiently asks again what was not answered in time, by a server of this machine: it is busy.
func Patiently[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	for end := time.Now().Add(patience); ; {
		answer, err := ask(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || time.Now().After(end) {
			return answer, err
		}
	}
}
