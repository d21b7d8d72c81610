package ui

import (
	"slices"

	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// topicRow is a topic of the catalogue, with its figures of the snapshot.
type topicRow struct {
	Name string
	// Physical is its name at the broker; empty: it is not configured here.
	Physical   string
	EventTypes []string
	Figures    stats.Group
	// Troubles are what publishers say of it, as long as they can not publish to it.
	Troubles []stats.TopicState
	// Pause is what an operator has paused it by.
	Pause *outbox.HeldPause
}

// topics are all topics of the catalogue, with their figures of s, which may be nil.
func topics(r *request, s *stats.Report) (rows []topicRow) {
	types := map[string][]string{}
	for _, n := range r.outbox.Registry.Names() {
		if !slices.Contains(types[n.Topic], n.Name) {
			types[n.Topic] = append(types[n.Topic], n.Name)
		}
	}
	for _, name := range r.outbox.Registry.TopicNames() {
		row := topicRow{Name: name, Physical: r.h.cfg.Topics[name], EventTypes: types[name], Figures: stats.Group{Key: name}}
		if s != nil {
			for _, g := range s.Groups {
				if g.Key == name {
					row.Figures = g
				}
			}
			for _, t := range s.Topics {
				if t.Topic == name {
					row.Troubles = append(row.Troubles, t)
				}
			}
			for _, p := range s.Pauses {
				if p.Kind == outbox.PauseTopic && p.Value == name {
					row.Pause = &p
				}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func topicsPage(r *request) (*view, error) {
	return &view{
		Title: "Topics", Command: "outboxctl stats --by topic", Live: true, template: "topics",
		Data: topics(r, r.snapshot.Stats),
	}, nil
}

// publishersPage shows the publishers that are alive, then those that are not.
func publishersPage(r *request) (*view, error) {
	var all []dispatch.Peer
	if s := r.snapshot.Stats; s != nil {
		all = slices.Concat(s.Publishers, s.Gone)
	}
	return &view{Title: "Publishers", Command: "outboxctl publishers", Live: true, template: "publishers", Data: all}, nil
}
