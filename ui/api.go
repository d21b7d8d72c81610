package ui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/why"
)

// answer is what the API answers: a body as docs/json-output.md describes it, and where a list goes on.
type answer struct {
	body any
	next string
}

func (h *Handler) serveAPI(w http.ResponseWriter, r *http.Request, to route) {
	var a answer
	err := h.with(r, to, func(req *request) (err error) {
		a, err = to.api(req)
		return err
	})
	var doc []byte
	if err == nil {
		doc, err = json.Marshal(a.body)
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	if a.next != "" {
		q := r.URL.Query()
		q.Set("cursor", a.next)
		w.Header().Set("Link", "<"+h.cfg.BasePath+r.URL.Path+"?"+q.Encode()+`>; rel="next"`)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(safetext.JSON(doc), '\n')) // the caller has gone
}

func meAPI(r *request) (answer, error) {
	return answer{body: map[string]any{"name": whoOf(r.Request).Name, "role": whoOf(r.Request).role()}}, known(r.URL.Query())
}

// figures are those of the snapshot. A program, which does not read the line above them, must not take old ones for new.
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

func statsAPI(r *request) (answer, error) {
	if err := known(r.URL.Query()); err != nil {
		return answer{}, err
	}
	s, err := r.figures()
	if err != nil {
		return answer{}, err
	}
	return answer{body: s.Stats}, nil
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

// grouping reads by what causes are to be grouped.
func grouping(q url.Values) (by string, err error) {
	if err := known(q, "by"); err != nil {
		return "", err
	}
	by = one(q, "by", "fingerprint")
	if !slices.Contains(dlq.GroupBy(), by) {
		return "", fault.Usagef("by: %q is none of fingerprint, reason, type, topic", by)
	}
	return by, nil
}

// list reads one part of a list. names are its filters, parse reads them at the database's time, and read passes the rows that
// they select.
func list[F, T any](
	r *request, names []string, parse func(url.Values, time.Time) (F, error), read func(F, outbox.Page, func(T) error) (outbox.Paged, error),
) (rows []T, paged outbox.Paged, err error) {
	q := r.URL.Query()
	if err := known(q, append(names, "limit", "cursor")...); err != nil {
		return nil, paged, err
	}
	if err := given(q, "limit", "cursor"); err != nil {
		return nil, paged, err
	}
	page, err := readPage(q)
	if err != nil {
		return nil, paged, err
	}
	now, err := r.outbox.Now(r.Context())
	if err != nil {
		return nil, paged, err
	}
	filter, err := parse(q, now)
	if err != nil {
		return nil, paged, err
	}
	rows = []T{}
	paged, err = read(filter, page, func(row T) error { rows = append(rows, row); return nil })
	return rows, paged, err
}

func deadLettersAPI(r *request) (answer, error) {
	rows, paged, err := listDeadLetters(r)
	return answer{rows, paged.Next}, err
}

// searchRows and searchTime are how many rows one request looks at, and how long, for those with an error like the one that is
// asked for; the next goes on.
const (
	searchRows = 100_000
	searchTime = time.Second
)

func listDeadLetters(r *request) ([]dlq.Entry, outbox.Paged, error) {
	return list(r, deadLetterNames(), deadLetterFilter, func(f dlq.Filter, page outbox.Page, each func(dlq.Entry) error) (outbox.Paged, error) {
		page.LookAt, page.LookFor = r.h.searchRows, searchTime
		return r.outbox.ListDeadLetters(r.Context(), outbox.ListParams{Filter: f, Page: page}, each)
	})
}

func deadLetterAPI(r *request) (answer, error) {
	d, err := why.DeadLetter(r.Context(), r.outbox, why.DetailParams{ID: r.PathValue("id")})
	return answer{body: d}, err
}

func eventsAPI(r *request) (answer, error) {
	rows, paged, err := listEvents(r)
	return answer{rows, paged.Next}, err
}

func listEvents(r *request) ([]outbox.Event, outbox.Paged, error) {
	return list(r, eventNames(), eventFilter, func(f outbox.Filter, page outbox.Page, each func(outbox.Event) error) (outbox.Paged, error) {
		return r.outbox.ListEvents(r.Context(), outbox.ListParams{Filter: f, Page: page}, each)
	})
}

func eventAPI(r *request) (answer, error) {
	d, err := why.Event(r.Context(), r.outbox, why.DetailParams{ID: r.PathValue("id")})
	return answer{body: d}, err
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
	return answer{body: r.h.reader.types.Load().List()}, known(r.URL.Query())
}

func auditAPI(r *request) (answer, error) {
	rows, paged, err := listAudit(r)
	return answer{rows, paged.Next}, err
}

func plansAPI(r *request) (answer, error) {
	rows, paged, err := listPlans(r)
	return answer{rows, paged.Next}, err
}

func listPlans(r *request) ([]dlq.Plan, outbox.Paged, error) {
	all := func(url.Values, time.Time) (struct{}, error) { return struct{}{}, nil }
	return list(r, nil, all, func(_ struct{}, page outbox.Page, each func(dlq.Plan) error) (outbox.Paged, error) {
		return r.outbox.ListPlans(r.Context(), dlq.ListPlansParams{Page: page}, each)
	})
}

func planAPI(r *request) (answer, error) {
	plan, err := r.outbox.Plan(r.Context(), r.PathValue("id"))
	return answer{body: plan}, err
}
