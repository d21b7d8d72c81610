package stats

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// aliveFor is how long ago a publisher may have been heard of to count as alive. It says so every few seconds; a dead one's
// leases run out in about this time.
const aliveFor = 30 * time.Second

// topicHealthy is the state of a topic that is published to.
const topicHealthy = "healthy"

// publisherState is what a publisher writes about itself.
type publisherState struct {
	InFlight int64 `json:"inFlight"`
	Topics   []struct {
		Topic string `json:"topic"`
		State string `json:"state"`
		Error string `json:"error"`
	} `json:"topics"`
}

func publishers(ctx context.Context, tx pgx.Tx, r *Report) error {
	rows, err := tx.Query(ctx, publishersQuery, aliveFor)
	if err != nil {
		return err
	}
	var p Publisher
	var raw []byte
	_, err = pgx.ForEachRow(rows, []any{&p.ID, &p.Host, &p.PID, &p.Version, &p.StartedAt, &p.LastSeenAt, &raw}, func() error {
		var state publisherState
		if err := json.Unmarshal(raw, &state); err != nil {
			return fmt.Errorf("read the state of publisher %s: %w", p.ID, err)
		}
		p.InFlight = state.InFlight
		r.Publishers = append(r.Publishers, p)
		for _, t := range state.Topics {
			if t.State != topicHealthy {
				r.Topics = append(r.Topics, TopicState{Topic: t.Topic, State: t.State, Error: t.Error, Publisher: fmt.Sprintf("%s/%d", p.Host, p.PID)})
			}
		}
		return nil
	})
	return err
}
