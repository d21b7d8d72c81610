package ui

import (
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// publishersOf are all publishers of a report, which may be nil: those that are alive, and behind
// them those that are not.
func publishersOf(_ *request, s *stats.Report) []dispatch.Peer {
	if s == nil {
		return []dispatch.Peer{}
	}
	return append(append([]dispatch.Peer{}, s.Publishers...), s.Gone...)
}

func publishersPage(r *request) (*view, error) {
	return &view{
		Title: "Publishers", Command: "outboxctl publishers", Live: true, template: "publishers",
		Data: publishersOf(r, r.snapshot.Stats),
	}, nil
}
