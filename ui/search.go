package ui

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/why"
)

type match struct{ Kind, Name, To string }

// searchPage leads to what has the id, its beginning or end, the key, type, fingerprint or error
// that a person pastes. Of several matches it shows links.
func searchPage(r *request) (*view, error) {
	words := strings.TrimSpace(one(r.URL.Query(), "q", ""))
	if words == "" {
		return nil, fault.Usagef("type an id, its beginning or end, an ordering or dedupe key, an event type, a fingerprint or the text of an error")
	}
	found, err := why.Find(r.Context(), r.outbox, words)
	if err == nil {
		return &view{redirect: pageOf(found)}, nil
	}
	matches, otherErr := r.matches(words)
	switch {
	case otherErr != nil || len(matches) == 0:
		return nil, cmp.Or(otherErr, err)
	case len(matches) == 1:
		return &view{redirect: matches[0].To}, nil
	}
	return &view{Title: "Found", Command: "outboxctl why ID", template: "search", Data: matches}, nil
}

// endsOf is an id as lists show it, 01930000…000000d1, or its end alone.
var endsOf = regexp.MustCompile(`^(?:([0-9a-fA-F]{8})[0-9a-fA-F-]*(?:…|\.\.\.))?([0-9a-fA-F]{4,12})$`)

// matches are what has the words in it and is no id or key of one thing.
func (r *request) matches(text string) (found []match, err error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return nil, nil // nothing that is stored has it
	}
	if ends := endsOf.FindStringSubmatch(text); ends != nil {
		rows, err := r.outbox.FindByEnds(r.Context(), strings.ToLower(ends[1]), strings.ToLower(ends[2]))
		if err != nil {
			return nil, err
		}
		for _, e := range rows {
			found = append(found, match{e.Kind, e.ID, map[string]string{"dead letter": "/dead-letters/", "event": "/events/"}[e.Kind] + e.ID})
		}
	}
	if slices.Contains(r.outbox.Registry.EventTypes(), text) {
		found = append(found, match{"event type", text, "/events" + query("type", text)}, match{"dead letters of the type", text, "/dead-letters" + query("type", text)})
	}
	if slices.Contains(r.outbox.Registry.TopicNames(), text) {
		found = append(found, match{"dead letters of the topic", text, "/dead-letters" + query("topic", text)})
	}
	for _, key := range []string{text, outbox.DefaultNamespace + "/" + text} {
		rows, err := r.outbox.Lane(r.Context(), key, 1)
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 {
			found = append(found, match{"ordering key", key, "/ordering-keys" + query("key", key)})
		}
	}
	for _, g := range r.snapshot.Causes["fingerprint"] {
		if g.Value != "" && strings.HasPrefix(g.Value, text) {
			found = append(found, match{"cause", g.Value, "/dead-letters" + query("fingerprint", g.Value)})
		}
	}
	some := false
	page := outbox.Page{Limit: 1, LookAt: r.h.searchRows, LookFor: searchTime}
	paged, err := r.outbox.ListDeadLetters(r.Context(), outbox.ListParams{Filter: dlq.Filter{ErrorLike: text}, Page: page}, func(dlq.Entry) error { some = true; return nil })
	if some || err == nil && paged.Looked > 0 { // it goes on there where it was cut short
		found = append(found, match{"dead letters whose error contains it", text, "/dead-letters" + query("state", "all", "error-like", text)})
	}
	return found, err
}

// pageOf is the address that shows what was found.
func pageOf(found why.Found) string {
	switch found.Kind {
	case why.FoundPlan:
		return "/plans/" + found.ID
	case why.FoundDeadLetter:
		return "/dead-letters/" + found.ID
	case why.FoundAggregate:
		return "/events" + query("aggregate", found.ID)
	case why.FoundTenant:
		return "/dead-letters" + query("state", "all", "tenant", found.ID)
	default:
		return "/events/" + found.ID
	}
}
