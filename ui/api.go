package ui

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/why"
)

// answer is what a request came to. The body is what the API answers, as docs/json-output.md
// describes it; next is where a list goes on.
type answer struct {
	body any
	next string
	// at is where a page goes after a change, status that of the API's answer.
	at     string
	status int
	// page is shown, or a file with the text sent, where the browser's history must not have it.
	page       *view
	file, text string
}

func (h *Handler) serveAPI(w http.ResponseWriter, r *http.Request, to route) {
	var a answer
	err := h.with(r, to, func(req *request) (err error) {
		a, err = to.api(req)
		return err
	})
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if a.next != "" {
		q := r.URL.Query()
		q.Set("cursor", a.next)
		w.Header().Set("Link", "<"+h.cfg.BasePath+r.URL.Path+"?"+q.Encode()+`>; rel="next"`)
	}
	h.writeJSON(w, r, http.StatusOK, a.body)
}

// rows answers with a part of a list.
func rows[T any](read func(*request) ([]T, outbox.Paged, error)) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		rows, paged, err := read(r)
		return answer{body: rows, next: paged.Next}, err
	}
}

func body[T any](read func(*request) (T, error)) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		found, err := read(r)
		return answer{body: found}, err
	}
}

func figures[T any](of func(*request, *stats.Report) T) func(*request) (answer, error) {
	return body(func(r *request) (T, error) {
		s, err := r.figures()
		return of(r, s.Stats), err
	})
}

func everything(_ *request, s *stats.Report) *stats.Report { return s }

func meAPI(r *request) (answer, error) {
	return answer{body: map[string]any{"name": r.who.Name, "role": cmp.Or(r.who.Role, Viewer)}}, nil
}

// figures are those of the snapshot. A program, which does not read the line above them, must not
// take old ones for new.
func (r *request) figures() (snapshot, error) {
	s := r.snapshot
	switch {
	case s.Err != nil:
		return s, statusError{http.StatusServiceUnavailable, s.Err}
	case s.Stats == nil:
		return s, statusError{http.StatusServiceUnavailable, fault.Preconditionf("the first figures are still being gathered")}
	}
	return s, nil
}

func causesAPI(r *request) (answer, error) {
	by, err := grouping(r.URL.Query())
	if err != nil {
		return answer{}, err
	}
	s, err := r.figures()
	if _, late := s.Late[by]; err == nil && late {
		err = statusError{http.StatusServiceUnavailable, fault.Hint(
			fault.Preconditionf("the dead letters could not be counted by %s in time", by), "raise ui.query_timeout, or ask for another grouping")}
	}
	if s.Causes[by] == nil {
		return answer{body: []dlq.Group{}}, err
	}
	return answer{body: s.Causes[by]}, err
}

func grouping(q url.Values) (by string, err error) {
	by = one(q, "by", "fingerprint")
	if !slices.Contains(dlq.GroupBy(), by) {
		return "", fault.Usagef("by: %q is none of fingerprint, reason, type, topic", by)
	}
	return by, nil
}

// list reads one part of a list. parse reads its filters at the database's time, and read passes
// the rows that they select.
func list[F, T any](
	r *request, parse func(url.Values, time.Time) (F, error), read func(F, outbox.Page, func(T) error) (outbox.Paged, error),
) (rows []T, paged outbox.Paged, err error) {
	q := r.URL.Query()
	if err := given(q, "limit", "cursor"); err != nil {
		return nil, paged, err
	}
	page, err := readPage(q)
	if err != nil {
		return nil, paged, err
	}
	filter, err := parse(q, r.now)
	if err != nil {
		return nil, paged, err
	}
	rows = []T{}
	paged, err = read(filter, page, func(row T) error { rows = append(rows, row); return nil })
	return rows, paged, err
}

// searchRows and searchTime limit one request that looks for an error; the next goes on.
const (
	searchRows = 100_000
	searchTime = time.Second
)

func listDeadLetters(r *request) ([]dlq.Entry, outbox.Paged, error) {
	return list(r, deadLetterFilter, func(f dlq.Filter, page outbox.Page, each func(dlq.Entry) error) (outbox.Paged, error) {
		page.LookAt, page.LookFor = r.h.searchRows, searchTime
		return r.outbox.ListDeadLetters(r.Context(), outbox.ListParams{Filter: f, Page: page}, each)
	})
}

func readLetter(r *request) (why.DeadLetterDetail, error) {
	return why.DeadLetter(r.Context(), r.outbox, why.DetailParams{ID: r.PathValue("id")})
}

func listEvents(r *request) ([]outbox.Event, outbox.Paged, error) {
	return list(r, eventFilter, func(f outbox.Filter, page outbox.Page, each func(outbox.Event) error) (outbox.Paged, error) {
		return r.outbox.ListEvents(r.Context(), outbox.ListParams{Filter: f, Page: page}, each)
	})
}

func readEvent(r *request) (why.EventDetail, error) {
	return why.Event(r.Context(), r.outbox, why.DetailParams{ID: r.PathValue("id")})
}

func whyAPI(r *request) (answer, error) {
	found, err := why.Explain(r.Context(), r.outbox, why.Params{ID: r.PathValue("id"), MaxAttempts: r.h.cfg.MaxAttempts})
	return answer{body: found}, err
}

func consumersAPI(r *request) (answer, error) {
	marks, err := r.outbox.Marks(r.Context(), idem.MarksParams{ID: r.PathValue("id")})
	return answer{body: marks}, err
}

func registryAPI(r *request) (answer, error) {
	return answer{body: r.h.reader.types.Load().List()}, nil
}

func listPlans(r *request) ([]dlq.Plan, outbox.Paged, error) {
	all := func(url.Values, time.Time) (struct{}, error) { return struct{}{}, nil }
	return list(r, all, func(_ struct{}, page outbox.Page, each func(dlq.Plan) error) (outbox.Paged, error) {
		return r.outbox.ListPlans(r.Context(), dlq.ListPlansParams{Page: page}, each)
	})
}

func readPlan(r *request) (dlq.PlanDetail, error) {
	return r.outbox.Plan(r.Context(), r.PathValue("id"))
}
