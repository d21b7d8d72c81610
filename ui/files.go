package ui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

// sendWithin is how long a viewer may take to fetch one piece of a file.
const sendWithin = 30 * time.Second

// serveExport sends every row of a list that matches, as JSON lines. Each thousand is read by
// itself: a file that takes minutes to fetch holds no transaction open.
func (h *Handler) serveExport(w http.ResponseWriter, r *http.Request, to route) {
	q := r.URL.Query()
	if q.Has("limit") || q.Has("cursor") {
		h.fail(w, r, fault.Usagef("a file has every row: limit and cursor are for lists"))
		return
	}
	q.Set("limit", strconv.Itoa(mostRows))
	for first := true; first || q.Get("cursor") != ""; first = false {
		var page answer
		err := h.with(asking(r, q), to, func(req *request) (err error) {
			page, err = to.api(req)
			return err
		})
		if err != nil && first {
			h.fail(w, r, err)
			return
		}
		if first {
			attach(w, to.path[1:]+".jsonl", "application/jsonl")
		}
		if err == nil {
			err = sendLines(w, page.body)
		}
		if err != nil {
			h.breakOff(r, err)
		}
		q.Set("cursor", page.next)
	}
}

func attach(w http.ResponseWriter, name, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
}

// breakOff ends an answer that has begun, so that the client sees that it is not whole.
func (h *Handler) breakOff(r *http.Request, err error) {
	h.cfg.Log(r.URL.Path, err)
	panic(http.ErrAbortHandler)
}

func sendLines(w http.ResponseWriter, rows any) error {
	doc, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	var lines []json.RawMessage
	if err := json.Unmarshal(safetext.JSON(doc), &lines); err != nil {
		return err
	}
	out := slowly{w}
	for _, line := range lines {
		if _, err := out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// slowly is an answer whose time limit starts again with each piece.
type slowly struct{ http.ResponseWriter }

func (w slowly) Write(piece []byte) (int, error) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(sendWithin)) // a writer of a test has no limit
	return w.ResponseWriter.Write(piece)
}

// fix writes the addresses of a list that show the same rows tomorrow: a time such as 2h ago
// becomes an instant. A file ends when the list was read.
func (d *listData) fix(path string, q url.Values, now time.Time) (err error) {
	if d.since, d.until, err = outbox.ParseSpan(one(q, "since", ""), one(q, "until", ""), now); err != nil {
		return fault.As(fault.Usage, err)
	}
	fixed := url.Values{}
	for name, v := range q {
		if name != "cursor" {
			fixed[name] = v
		}
	}
	set := func(name string, at time.Time) {
		if !at.IsZero() {
			fixed.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	set("since", d.since)
	set("until", d.until)
	d.Link = path + "?" + fixed.Encode()
	if d.until.IsZero() {
		set("until", now)
	}
	fixed.Del("limit")
	d.File = "/export" + path + "?" + fixed.Encode()
	return nil
}
