package dlq

import (
	"context"
	"time"
)

// What a consumer's own store says about an event.
const (
	MarkUnknown    = "unknown"
	MarkProcessing = "processing"
	MarkProcessed  = "processed"
)

// Mark is what one consumer remembers about one event.
type Mark struct {
	Consumer  string     `json:"consumer"`
	EventID   string     `json:"eventId"`
	State     string     `json:"state"`
	Since     *time.Time `json:"since"`
	Owner     string     `json:"owner,omitempty"`
	ExpiresIn string     `json:"expiresIn,omitempty"`
}

// Marks reads the consumers' store.
type Marks interface {
	// Consumers lists the consumers that made themselves known.
	Consumers(ctx context.Context) ([]string, error)
	// Lookup returns one Mark per event and consumer, events outermost.
	Lookup(ctx context.Context, consumers, eventIDs []string) ([]Mark, error)
}

// MarkCount is how many events of a set a consumer knows.
type MarkCount struct {
	Consumer   string `json:"consumer"`
	Processed  int64  `json:"processed"`
	Processing int64  `json:"processing"`
	Unknown    int64  `json:"unknown"`
}

// CountMarks asks, for every target of a source, what each consumer remembers.
func CountMarks(ctx context.Context, marks Marks, consumers []string, source Source) ([]MarkCount, error) {
	counts := make([]MarkCount, len(consumers))
	place := make(map[string]*MarkCount, len(consumers))
	for i, name := range consumers {
		counts[i].Consumer = name
		place[name] = &counts[i]
	}
	for {
		targets, err := source.Next(ctx, ChunkSize)
		if err != nil {
			return nil, err
		}
		if len(targets) == 0 {
			return counts, nil
		}
		ids := make([]string, 0, len(targets))
		for _, t := range targets {
			if t.EventID != "" {
				ids = append(ids, t.EventID)
			}
		}
		found, err := marks.Lookup(ctx, consumers, ids)
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			c := place[m.Consumer]
			switch m.State {
			case MarkProcessed:
				c.Processed++
			case MarkProcessing:
				c.Processing++
			default:
				c.Unknown++
			}
		}
	}
}
