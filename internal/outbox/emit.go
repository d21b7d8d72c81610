package outbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/fault"
)

const (
	// MaxEventText bounds the text of one event. It is at most 10 MB as it is published, but escapes
	// and blanks can make its text several times as long.
	MaxEventText = 64 << 20
	// A batch is what is sent in one statement; the bytes bound memory. A larger event goes alone.
	emitBatchEvents = 500
	emitBatchBytes  = 4 << 20
	// commitTimeout ends the wait for the answer to a COMMIT. It does not listen to the caller's
	// context: interrupting a COMMIT would only make its outcome unknown.
	commitTimeout = 15 * time.Second
)

// EmitParams is what to write to the outbox: one event, or a stream of them.
type EmitParams struct {
	// Event is one event; nil reads Lines.
	Event *emit.Event
	// Lines are events as JSON objects, one per line.
	Lines io.Reader
	// DryRun checks the events and writes nothing. It needs no database.
	DryRun bool
	// Wrote is told how many more events are written, before they are committed. It may be nil.
	Wrote func(events int)
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

// Emit writes events in one transaction: all of them or, after an error, none. A bad line is an
// error that names it. A dry run returns the events that are valid, without ids.
//
// An error of the kind Partial means that the answer to COMMIT got lost: either all are written or
// none.
func (o *Outbox) Emit(ctx context.Context, p EmitParams) ([]Emitted, error) {
	emitter := emit.New(o.Registry)
	// Cancelled when the writer gives up, so that the reader does too. A read that is under way cannot
	// be interrupted: that goroutine ends with its input.
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var batches <-chan emitBatch
	if p.Event == nil {
		batches = readBatches(reading, p.Lines, emitter)
	} else {
		prepared, err := emitter.Prepare(*p.Event)
		if err != nil {
			return nil, o.unknownType(EmitError(err), p.Event.Type)
		}
		only := make(chan emitBatch, 1)
		only <- emitBatch{[]emitLine{{prepared: prepared}}, io.EOF}
		batches = only
	}
	w := emitWriter{db: o.DB, emitter: emitter, dryRun: p.DryRun, wrote: p.Wrote}
	defer w.rollback(ctx)
	for {
		var batch emitBatch
		select {
		case batch = <-batches:
		case <-ctx.Done():
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := w.write(ctx, batch.lines)
		switch {
		case err != nil:
		case errors.Is(batch.err, io.EOF):
			if err = w.commit(ctx); err == nil {
				return w.written, nil
			}
		default:
			err = batch.err
		}
		if err != nil {
			return nil, EmitError(err)
		}
	}
}

// emitWriter writes events in a transaction that it opens with the first of them.
type emitWriter struct {
	db      Database
	emitter *emit.Emitter
	dryRun  bool
	wrote   func(events int)
	tx      pgx.Tx
	written []Emitted
}

func (w *emitWriter) write(ctx context.Context, lines []emitLine) (err error) {
	if len(lines) == 0 {
		return nil
	}
	prepared := make([]emit.Prepared, len(lines))
	for i, l := range lines {
		prepared[i] = l.prepared
	}
	results := make([]emit.Result, len(lines))
	if !w.dryRun {
		if w.tx == nil {
			if w.tx, err = w.db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}); err != nil {
				return fmt.Errorf("begin transaction: %w", err)
			}
		}
		if results, err = w.emitter.Write(ctx, w.tx, prepared); err != nil {
			return refusedLine(lines, err)
		}
	}
	for i, r := range results {
		w.written = append(w.written, Emitted{
			ID: r.ID, Type: prepared[i].Type, Topic: prepared[i].Topic, AlreadyEnqueued: r.AlreadyEnqueued, Line: lines[i].number,
		})
	}
	if w.wrote != nil {
		w.wrote(len(lines))
	}
	return nil
}

// refusedLine names the line of an event that the database refused: it counts them from 1 in each
// statement, and a batch is a statement.
func refusedLine(lines []emitLine, err error) error {
	var refused *pgconn.PgError
	var place int
	if !errors.As(err, &refused) || lines[0].number == 0 {
		return err
	}
	if n, _ := fmt.Sscanf(refused.Message, "event %d:", &place); n == 1 && place >= 1 && place <= len(lines) {
		return &lineError{lines[place-1].number, err}
	}
	return err
}

func (w *emitWriter) commit(ctx context.Context) error {
	if w.tx == nil {
		return nil
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := w.tx.Commit(settle)
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && !pgerrcode.IsOperatorIntervention(refused.Code), errors.Is(err, pgx.ErrTxCommitRollback):
		return fmt.Errorf("commit: %w", err)
	default:
		err = fmt.Errorf("the answer to COMMIT got lost, so that either all events are written or none: %w", err)
		return fault.Hint(fault.As(fault.Partial, err),
			"events with a dedupe key can be sent again safely; for others look at outboxctl event list first")
	}
}

// rollback drops what is not committed. One that does not arrive is done by the server when the
// connection ends.
func (w *emitWriter) rollback(ctx context.Context) {
	if w.tx == nil {
		return
	}
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	_ = w.tx.Rollback(settle)
}

// emitLine is one event of a stream and the line it came from.
type emitLine struct {
	number   int
	prepared emit.Prepared
}

// emitBatch is a run of lines, and the error that ended the stream after them.
type emitBatch struct {
	lines []emitLine
	err   error
}

// lineError is a bad line.
type lineError struct {
	number int
	err    error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.number, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// readBatches reads, checks and groups lines until the stream ends or a line is bad. The last batch
// carries the reason, io.EOF for a clean end. It runs beside the writer so that reading and
// checking cost no time of their own.
func readBatches(ctx context.Context, in io.Reader, emitter *emit.Emitter) <-chan emitBatch {
	batches := make(chan emitBatch, 1)
	go func() {
		defer close(batches)
		r := lineReader{in: bufio.NewReaderSize(in, 256<<10)}
		for {
			batch := r.batch(emitter)
			select {
			case batches <- batch:
			case <-ctx.Done():
				return
			}
			if batch.err != nil {
				return
			}
		}
	}()
	return batches
}

type lineReader struct {
	in     *bufio.Reader
	number int
	long   []byte
	next   *emitLine // what the last batch had no room for
}

// batch collects lines until there are enough of them.
func (r *lineReader) batch(emitter *emit.Emitter) (b emitBatch) {
	size := 0
	for len(b.lines) < emitBatchEvents {
		line := r.next
		if r.next = nil; line == nil {
			if line, b.err = r.read(emitter); b.err != nil {
				return b
			}
		}
		if size += line.prepared.Bytes(); size > emitBatchBytes && len(b.lines) > 0 {
			r.next = line
			return b
		}
		b.lines = append(b.lines, *line)
	}
	return b
}

// read reads and checks the next line that is not blank.
func (r *lineReader) read(emitter *emit.Emitter) (*emitLine, error) {
	for {
		text, err := r.text()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		prepared, err := PrepareLine(emitter, text)
		if err != nil {
			return nil, &lineError{r.number, err}
		}
		return &emitLine{r.number, prepared}, nil
	}
}

// PrepareLine reads and checks an event as JSON.
func PrepareLine(emitter *emit.Emitter, text []byte) (emit.Prepared, error) {
	event, err := emit.DecodeEvent(text)
	if err != nil {
		return emit.Prepared{}, err
	}
	return emitter.Prepare(event)
}

// text returns one line, valid until the next call. The last one needs no newline.
func (r *lineReader) text() ([]byte, error) {
	r.long = r.long[:0]
	for {
		part, err := r.in.ReadSlice('\n')
		switch {
		case err == nil || errors.Is(err, io.EOF):
			if len(r.long)+len(part) == 0 && err != nil {
				return nil, io.EOF
			}
			r.number++
			if len(r.long)+len(part) > MaxEventText {
				return nil, r.tooLong(r.number)
			}
			if len(r.long) > 0 {
				part = append(r.long, part...)
				r.long = part
			}
			if r.number == 1 {
				part = bytes.TrimPrefix(part, []byte("\xef\xbb\xbf"))
			}
			return part, nil
		case errors.Is(err, bufio.ErrBufferFull):
			if r.long = append(r.long, part...); len(r.long) > MaxEventText {
				return nil, r.tooLong(r.number + 1)
			}
		default:
			return nil, fmt.Errorf("read events after line %d: %w", r.number, err)
		}
	}
}

func (r *lineReader) tooLong(number int) error {
	return &lineError{number, fault.Usagef("longer than %d bytes", MaxEventText)}
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
