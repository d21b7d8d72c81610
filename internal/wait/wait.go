// Package wait sleeps with a context.
package wait

import (
	"context"
	"time"
)

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
