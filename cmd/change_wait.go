package cmd

import (
	"cmp"
	"context"
	"fmt"

	"github.com/outboxctl/outboxctl/internal/operate"
	"github.com/outboxctl/outboxctl/internal/words"
)

// await waits for what becomes of the events that were sent, and writes each as soon as it is known. ran is the error of
// the change itself.
func (o *changeOptions) await(ctx context.Context, set *operate.ChangeSet, sent []operate.ChangeOutcome, ran error, write func(operate.ChangeOutcome) error) error {
	bar := o.app.NewProgress("settled", int64(len(sent)))
	sum, err := set.Await(ctx, operate.AwaitParams{Sent: sent, Timeout: o.timeout, OnSettled: func(row operate.ChangeOutcome) error {
		bar.Add(1)
		return write(row)
	}})
	bar.Done()
	fmt.Fprintf(o.app.Err, "%s published, %s died again, %s keep failing, %s still waiting\n",
		words.Count(sum.Published), words.Count(sum.Dead), words.Count(sum.Failing), words.Count(sum.Waiting))
	return cmp.Or(ran, err)
}
