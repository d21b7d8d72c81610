package outbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/outboxctl/outboxctl/emit"
	"github.com/outboxctl/outboxctl/internal/fault"
)

const (
	// MaxEventText bounds the text of one event. It is at most 10 MB as it is published, but escapes
	// and blanks can make its text several times as long.
	MaxEventText = 64 << 20
	// A batch is what is sent in one statement; the bytes bound memory.
	emitBatchEvents = 500
	emitBatchBytes  = 4 << 20
)

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
}

// batch collects lines until there are enough of them, or the feed has nothing more to offer at the
// moment: what is there must not wait for what may never come.
func (r *lineReader) batch(emitter *emit.Emitter) emitBatch {
	var b emitBatch
	size := 0
	for len(b.lines) < emitBatchEvents && size < emitBatchBytes {
		if len(b.lines) > 0 && !r.ready() {
			break
		}
		text, err := r.next()
		if err != nil {
			b.err = err
			return b
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		prepared, err := PrepareLine(emitter, text)
		if err != nil {
			b.err = &lineError{r.number, err}
			return b
		}
		size += prepared.Bytes()
		b.lines = append(b.lines, emitLine{r.number, prepared})
	}
	return b
}

// PrepareLine reads and checks an event as JSON.
func PrepareLine(emitter *emit.Emitter, text []byte) (emit.Prepared, error) {
	event, err := emit.DecodeEvent(text)
	if err != nil {
		return emit.Prepared{}, err
	}
	return emitter.Prepare(event)
}

// ready reports whether a whole line can be had without waiting.
func (r *lineReader) ready() bool {
	buffered, err := r.in.Peek(r.in.Buffered())
	return err == nil && bytes.IndexByte(buffered, '\n') >= 0
}

// next returns one line, valid until the next call. The last one needs no newline.
func (r *lineReader) next() ([]byte, error) {
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
