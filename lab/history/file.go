package history

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// line is one observation as the file holds it: its kind and its body.
type line struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
}

// Recorder writes observations as they are made. It is safe for concurrent use. The first error stays and is returned
// by Close, so that a caller need not look at each record.
type Recorder struct {
	mu  sync.Mutex
	out *bufio.Writer
	err error
}

// NewRecorder writes to w, which stays the caller's to close.
func NewRecorder(w io.Writer) *Recorder { return &Recorder{out: bufio.NewWriterSize(w, 1<<16)} }

// Add records one observation: a value of one of this package's types.
func (r *Recorder) Add(observation any) {
	text, err := encode(observation)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
	if r.err == nil {
		_, r.err = r.out.Write(text)
	}
}

// Close writes what is buffered.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.out.Flush(); r.err == nil {
		r.err = err
	}
	return r.err
}

func encode(observation any) ([]byte, error) {
	kind, ok := kindOf(observation)
	if !ok {
		return nil, fmt.Errorf("record a %T: not an observation", observation)
	}
	body, err := json.Marshal(observation)
	if err != nil {
		return nil, fmt.Errorf("record a %s: %w", kind, err)
	}
	text, err := json.Marshal(line{kind, body})
	if err != nil {
		return nil, fmt.Errorf("record a %s: %w", kind, err)
	}
	return append(text, '\n'), nil
}

func kindOf(observation any) (string, bool) {
	switch o := observation.(type) {
	case Run:
		return "run", true
	case Transaction:
		return "transaction", true
	case Arrival:
		return "arrival", true
	case Fault:
		return "fault", true
	case Process:
		return "process", true
	case Command:
		return "command", true
	case Handled:
		return "handled", true
	case Effect:
		return "effect", true
	case Change:
		return "change", true
	case Row:
		if o.RemovedAt.IsZero() {
			return "row", true
		}
		return "removed", true
	case LedgerRow:
		return "ledger", true
	case Letter:
		return "letter", true
	case Audit:
		return "audit", true
	case Stats:
		return "stats", true
	case Resource:
		return "resource", true
	default:
		return "", false
	}
}

// Read loads a recorded run. A later Run replaces an earlier one: it is written once when the run begins and once, with
// its end, when it is over.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	dec := json.NewDecoder(bufio.NewReaderSize(r, 1<<16))
	for n := 1; ; n++ {
		var l line
		if err := dec.Decode(&l); err == io.EOF {
			return h, nil
		} else if err != nil {
			return nil, fmt.Errorf("read history, line %d: %w", n, err)
		}
		if err := h.add(l); err != nil {
			return nil, fmt.Errorf("read history, line %d: %s: %w", n, l.Kind, err)
		}
	}
}

func (h *History) add(l line) error {
	switch l.Kind {
	case "run":
		h.Run = Run{}
		return json.Unmarshal(l.Body, &h.Run)
	case "transaction":
		return push(&h.Transactions, l.Body)
	case "arrival":
		return push(&h.Arrivals, l.Body)
	case "fault":
		return push(&h.Faults, l.Body)
	case "process":
		return push(&h.Processes, l.Body)
	case "command":
		return push(&h.Commands, l.Body)
	case "handled":
		return push(&h.Handled, l.Body)
	case "effect":
		return push(&h.Effects, l.Body)
	case "change":
		return push(&h.Changes, l.Body)
	case "row":
		return push(&h.Rows, l.Body)
	case "removed":
		return push(&h.Removed, l.Body)
	case "ledger":
		return push(&h.Ledger, l.Body)
	case "letter":
		return push(&h.Letters, l.Body)
	case "audit":
		return push(&h.Audits, l.Body)
	case "stats":
		return push(&h.Stats, l.Body)
	case "resource":
		return push(&h.Resources, l.Body)
	default:
		return fmt.Errorf("unknown kind %q", l.Kind)
	}
}

func push[T any](list *[]T, body json.RawMessage) error {
	var v T
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	*list = append(*list, v)
	return nil
}
