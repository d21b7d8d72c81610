package dlq

import (
	"context"
	"fmt"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// NotErased is what an erasure does not reach, in words.
const NotErased = "messages that the broker or a consumer has, backups, replicas' and PostgreSQL's own logs (WAL), " +
	"and on disk the old versions of the rows until VACUUM FULL outbox_events, outbox_dlq, outbox_consumer_failures"

// forgetSamples makes PostgreSQL's statistics forget what was erased.
func (o *Outbox) forgetSamples(ctx context.Context) error {
	var done bool
	if err := o.change(ctx, `SELECT outbox_forget_samples()`, nil, &done); err != nil {
		return fmt.Errorf("take new statistics: %w", err)
	}
	if !done {
		return fault.Hint(fault.Partialf("PostgreSQL's statistics may hold samples of what was erased: another session keeps ANALYZE from taking new ones"),
			"ANALYZE outbox_events, outbox_dlq, outbox_consumer_failures")
	}
	return nil
}
