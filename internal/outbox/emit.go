package outbox

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// DefaultTxSize is how many events of a stream share a transaction unless another number is chosen.
const DefaultTxSize = 5_000

// emitIdle is how long an open transaction waits for the next line. Left open it would hold back
// vacuum, and its events, for as long as the feed is silent.
const emitIdle = 2 * time.Second

// EmitParams is what to write to the outbox: one event, or a stream of them.
type EmitParams struct {
	// Event is one event; nil reads Lines.
	Event *emit.Event
	// Lines are events as JSON objects, one per line.
	Lines io.Reader
	// TxSize is how many lines share a transaction; 0: all of them, or none is written.
	TxSize int
	// DryRun checks the events and writes nothing. It needs no database.
	DryRun bool
	// Committed is told of the events of each transaction once they are there. The slice is valid
	// during the call. An error ends the stream.
	Committed func([]Emitted) error
}

// Emitted is one event that was written.
type Emitted struct {
	ID    uuid.UUID `json:"id"`
	Type  string    `json:"type"`
	Topic string    `json:"topic"`
	// AlreadyEnqueued: an event with the dedupe key was there, and ID is its id.
	AlreadyEnqueued bool `json:"alreadyEnqueued"`
	// Line is the line of the stream, absent for an event given alone.
	Line int `json:"line,omitempty"`
}

// EmitResult is what was committed or, in a dry run, what was found to be valid.
type EmitResult struct {
	Events int
	// Already counts the events that were there before.
	Already int
	// Line is the last line that is committed.
	Line int
}

// Emit writes events. Every event is checked before it is sent, and a bad line is an error that
// names it; no line of its transaction is written. Which lines are written depends on the lines
// alone, not on how they arrive. A feed that falls silent is committed, unless all of it is to be
// one transaction.
//
// After an error the result tells what is committed nevertheless; if anything is, the error's kind
// is Partial.
func (o *Outbox) Emit(ctx context.Context, p EmitParams) (EmitResult, error) {
	if p.TxSize < 0 {
		return EmitResult{}, fault.Usagef("a transaction of %d events: must be at least 1", p.TxSize)
	}
	emitter := emit.New(o.Registry)
	if p.Event != nil {
		return o.emitOne(ctx, p, emitter)
	}
	// Cancelled when the writer gives up, so that the reader does too. A read that is under way cannot
	// be interrupted: that goroutine ends with its input.
	reading, stop := context.WithCancel(ctx)
	defer stop()
	batches := readBatches(reading, p.Lines, emitter)
	if p.DryRun {
		return checkStream(ctx, batches)
	}
	w := o.emitWriter(emitter, p.Committed)
	if err := p.writeStream(ctx, w, batches); err != nil {
		return w.done, w.failed(ctx, err)
	}
	return w.done, nil
}

func (o *Outbox) emitOne(ctx context.Context, p EmitParams, emitter *emit.Emitter) (EmitResult, error) {
	prepared, err := emitter.Prepare(*p.Event)
	if err != nil {
		return EmitResult{}, o.unknownType(EmitError(err), p.Event.Type)
	}
	if p.DryRun {
		return EmitResult{Events: 1}, nil
	}
	w := o.emitWriter(emitter, p.Committed)
	if err = w.write(ctx, []emitLine{{prepared: prepared}}); err == nil {
		err = w.commit(ctx)
	}
	if err != nil {
		err = w.failed(ctx, err)
	}
	return w.done, err
}

// writeStream moves batches into transactions until the stream ends.
func (p EmitParams) writeStream(ctx context.Context, w *emitWriter,
	batches <-chan emitBatch) error {
	for {
		batch, silent, err := nextBatch(ctx, batches, w.tx != nil && p.TxSize > 0)
		switch {
		case err != nil:
			return err
		case silent:
			if err := w.commit(ctx); err != nil {
				return err
			}
			continue
		}
		for lines := batch.lines; len(lines) > 0; {
			n := min(len(lines), p.room(len(w.pending)))
			if err := w.write(ctx, lines[:n]); err != nil {
				return err
			}
			lines = lines[n:]
			if p.room(len(w.pending)) == 0 {
				if err := w.commit(ctx); err != nil {
					return err
				}
			}
		}
		switch {
		case errors.Is(batch.err, io.EOF):
			return w.commit(ctx)
		case batch.err != nil: // what shares a transaction with the bad line is rolled back
			return batch.err
		}
	}
}

// room is how many more events the open transaction takes.
func (p EmitParams) room(pending int) int {
	if p.TxSize == 0 {
		return math.MaxInt
	}
	return p.TxSize - pending
}

// nextBatch waits for a batch. With a transaction open it waits only so long.
func nextBatch(ctx context.Context, batches <-chan emitBatch, open bool) (batch emitBatch,
	silent bool, err error) {
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
func checkStream(ctx context.Context, batches <-chan emitBatch) (valid EmitResult, err error) {
	for {
		batch, _, err := nextBatch(ctx, batches, false)
		if err != nil {
			return valid, err
		}
		valid.Events += len(batch.lines)
		switch {
		case errors.Is(batch.err, io.EOF):
			return valid, nil
		case batch.err != nil:
			return valid, EmitError(batch.err)
		}
	}
}

// unknownType suggests the type that an unknown one was most likely meant to be.
func (o *Outbox) unknownType(err error, name string) error {
	if similar := catalogue.Nearest(name, o.Registry.EventTypes()); similar != "" && similar != name {
		return fault.Hint(err, "did you mean %s?", similar)
	}
	return err
}

// EmitError gives the emitter's errors their kinds and hints.
func EmitError(err error) error {
	var invalid *emit.InvalidError
	switch {
	case errors.As(err, &invalid):
		err = fault.As(fault.Usage, err)
		for _, p := range invalid.Problems {
			if p.Field == "type" {
				return fault.Hint(err, "outboxctl registry list shows the event types")
			}
			if strings.HasPrefix(p.Field, "data.") {
				return fault.Hint(err, "outboxctl registry list -o wide shows the fields of each payload")
			}
		}
		return err
	case errors.Is(err, emit.ErrNotMigrated):
		return fault.Hint(fault.As(fault.Precondition, err),
			"outboxctl migrate creates or updates the tables")
	default:
		return err
	}
}
