package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
)

// line is one observation as the file holds it: its kind and its body.
type line struct {
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
}

// Recorder writes observations as they are made. It is safe for concurrent use. The first error
// stays and is returned by Close, so that a caller need not look at each record.
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
	kind := ""
	switch o := observation.(type) {
	case Run:
		kind = "run"
	case Row: // two lists have rows
		kind = "row"
		if !o.RemovedAt.IsZero() {
			kind = "removed"
		}
	default:
		for name, list := range new(History).lists() {
			if reflect.TypeOf(list).Elem().Elem() == reflect.TypeOf(observation) {
				kind = name
			}
		}
	}
	if kind == "" {
		return nil, fmt.Errorf("record a %T: not an observation", observation)
	}
	body, err := json.Marshal(observation)
	if err != nil {
		return nil, fmt.Errorf("record a %s: %w", kind, err)
	}
	text, err := json.Marshal(line{kind, body})
	return append(text, '\n'), err
}

// lists are those of the history, by the kind of their lines.
func (h *History) lists() map[string]any {
	return map[string]any{
		"transaction": &h.Transactions, "arrival": &h.Arrivals, "fault": &h.Faults, "process": &h.Processes,
		"command": &h.Commands, "handled": &h.Handled, "effect": &h.Effects, "change": &h.Changes, "row": &h.Rows,
		"removed": &h.Removed, "ledger": &h.Ledger, "letter": &h.Letters, "audit": &h.Audits, "stats": &h.Stats,
		"resource": &h.Resources,
	}
}

// Read loads a recorded run. A later Run replaces an earlier one: it is written once when the run
// begins and once, with its end, when it is over.
func Read(r io.Reader) (*History, error) {
	h := &History{}
	lists := h.lists()
	dec := json.NewDecoder(bufio.NewReaderSize(r, 1<<16))
	for n := 1; ; n++ {
		var l line
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return h, nil
		} else if err != nil {
			return nil, fmt.Errorf("read history, line %d: %w", n, err)
		}
		if err := h.add(l, lists); err != nil {
			return nil, fmt.Errorf("read history, line %d: %s: %w", n, l.Kind, err)
		}
	}
}

func (h *History) add(l line, lists map[string]any) error {
	if l.Kind == "run" {
		h.Run = Run{}
		return json.Unmarshal(l.Body, &h.Run)
	}
	if lists[l.Kind] == nil {
		return fmt.Errorf("unknown kind %q", l.Kind)
	}
	list := reflect.ValueOf(lists[l.Kind]).Elem()
	v := reflect.New(list.Type().Elem())
	if err := json.Unmarshal(l.Body, v.Interface()); err != nil {
		return err
	}
	list.Set(reflect.Append(list, v.Elem()))
	return nil
}
