package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/outboxctl/outboxctl/emit"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/internal/cli"
)

// emitIdle is how long an open transaction waits for the next line. Left open it
// would hold back vacuum, and its events, for as long as the feed is silent.
const emitIdle = 2 * time.Second

// runEmitStream emits the lines of standard input.
func runEmitStream(ctx context.Context, opts *emitOptions, emitter *emit.Emitter) error {
	// Cancelled when the writer gives up, so that the reader does too. A read that
	// is under way cannot be interrupted: that goroutine ends with its input.
	reading, stop := context.WithCancel(ctx)
	defer stop()
	if opts.dryRun {
		return checkStream(ctx, opts, readBatches(reading, opts.app.In, emitter))
	}
	pool, err := opts.app.Pool(ctx)
	if err != nil {
		return err
	}
	defer cli.SurviveClosedPipe()()
	start := opts.app.Now()
	w := newEmitWriter(opts, emitter, pool)
	err = writeStream(ctx, opts, w, readBatches(reading, opts.app.In, emitter))
	if err != nil {
		err = w.failed(ctx, err)
		opts.sayStopped(ctx, w)
		return err
	}
	opts.saySummary(w, opts.app.Now().Sub(start))
	return w.close()
}

// writeStream moves batches into transactions until the stream ends.
func writeStream(ctx context.Context, opts *emitOptions, w *emitWriter, batches <-chan emitBatch) error {
	var bar *cli.Progress
	if !opts.app.OutTTY {
		// On a terminal the ids themselves are the progress.
		bar = opts.app.NewProgress("emit", -1)
		defer bar.Done()
	}
	commit := func() error {
		before := w.events
		err := w.commit(ctx)
		if bar != nil {
			bar.Add(int64(w.events - before))
		}
		return err
	}
	for {
		batch, silent, err := nextBatch(ctx, batches, w.tx != nil && !opts.atomic)
		switch {
		case err != nil:
			return err
		case silent:
			if err := commit(); err != nil {
				return err
			}
			continue
		}
		bad := batch.err != nil && !errors.Is(batch.err, io.EOF)
		lines := batch.lines
		if bad {
			lines = lines[:opts.wholeTransactions(len(w.pending), len(lines))]
		}
		for len(lines) > 0 {
			n := min(len(lines), opts.room(len(w.pending)))
			if err := w.write(ctx, lines[:n]); err != nil {
				return err
			}
			lines = lines[n:]
			if opts.room(len(w.pending)) == 0 {
				if err := commit(); err != nil {
					return err
				}
			}
		}
		switch {
		case bad:
			return batch.err
		case batch.err != nil:
			return commit()
		}
	}
}

// room is how many more events the open transaction takes.
func (o *emitOptions) room(pending int) int {
	if o.atomic {
		return math.MaxInt
	}
	return o.txSize - pending
}

// wholeTransactions is how many of the lines before a bad one complete a transaction.
// The others share one with the bad line and are not written; which they are must
// depend on the lines alone, not on how they happened to arrive.
func (o *emitOptions) wholeTransactions(pending, lines int) int {
	if o.atomic {
		return 0
	}
	return max(0, (pending+lines)/o.txSize*o.txSize-pending)
}

// nextBatch waits for a batch. With a transaction open it waits only so long.
func nextBatch(ctx context.Context, batches <-chan emitBatch, open bool) (batch emitBatch, silent bool, err error) {
	var idle <-chan time.Time
	if open {
		timer := time.NewTimer(emitIdle)
		defer timer.Stop()
		idle = timer.C
	}
	select {
	case batch = <-batches:
		return batch, false, ctx.Err()
	case <-idle:
		return batch, true, nil
	case <-ctx.Done():
		return batch, false, ctx.Err()
	}
}

// checkStream is the dry run: it checks every line until one is bad.
func checkStream(ctx context.Context, opts *emitOptions, batches <-chan emitBatch) error {
	valid := 0
	for {
		batch, _, err := nextBatch(ctx, batches, false)
		if err != nil {
			return err
		}
		valid += len(batch.lines)
		switch {
		case errors.Is(batch.err, io.EOF):
			fmt.Fprintf(opts.app.Err, "valid: %s; nothing written\n", countEvents(valid))
			return nil
		case batch.err != nil:
			return emitError(batch.err)
		}
	}
}

func (o *emitOptions) saySummary(w *emitWriter, took time.Duration) {
	already := ""
	if w.already > 0 {
		already = fmt.Sprintf(" (%s of them already enqueued)", humanize.Comma(int64(w.already)))
	}
	rate := int64(float64(w.events) / max(took.Seconds(), 0.001))
	fmt.Fprintf(o.app.Err, "emitted %s%s in %s, %s/s\n", countEvents(w.events), already, took.Round(time.Millisecond), humanize.Comma(rate))
}

// sayStopped says where a stream that ended early can be taken up again.
func (o *emitOptions) sayStopped(ctx context.Context, w *emitWriter) {
	word := "stopped"
	if ctx.Err() != nil {
		word = "interrupted"
	}
	if w.events == 0 {
		fmt.Fprintf(o.app.Err, "%s: nothing written\n", word)
		return
	}
	fmt.Fprintf(o.app.Err, "%s: %s of lines 1 to %d are committed, nothing after line %d is; to go on: tail -n +%d\n",
		word, countEvents(w.events), w.line, w.line, w.line+1)
}

func countEvents(n int) string {
	if n == 1 {
		return "1 event"
	}
	return humanize.Comma(int64(n)) + " events"
}
