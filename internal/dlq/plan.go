package dlq

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// The form of a plan file.
const (
	planFormat  = "outboxctl/plan"
	planVersion = 1
)

// PlanHeader is what a plan says besides its items.
type PlanHeader struct {
	Format    string    `json:"format"`
	Version   int       `json:"version"`
	ID        string    `json:"id"`
	Action    Action    `json:"action"`
	CreatedAt time.Time `json:"createdAt"`
	Author    string    `json:"author"`
	Note      string    `json:"note,omitempty"`
	Database  Identity  `json:"database"`
	// Filter is how the set was chosen, for the reader; the items decide.
	Filter any `json:"filter,omitempty"`
}

// PlanItem is one target, frozen.
type PlanItem struct {
	ID            string     `json:"id"`
	EventID       string     `json:"eventId,omitempty"`
	PublishedAt   *time.Time `json:"publishedAt,omitempty"`
	PayloadSHA256 string     `json:"payloadSha256"`
}

// WritePlan freezes the targets of a source: which they are and what they
// carry. It returns how many there are. What an action could not be done to
// now is not frozen, and counted in skipped.
func (s *Store) WritePlan(ctx context.Context, w io.Writer, h PlanHeader, source Source) (n int64, skipped map[string]int64, err error) {
	h.Format, h.Version, h.ID = planFormat, planVersion, uuid.NewString()
	out, err := newPlanWriter(w, h)
	if err != nil {
		return 0, nil, err
	}
	skipped = map[string]int64{}
	for {
		targets, err := source.Next(ctx, ChunkSize)
		if err != nil {
			return out.n, skipped, err
		}
		if len(targets) == 0 {
			break
		}
		items, err := s.freeze(ctx, h.Action, targets, skipped)
		if err != nil {
			return out.n, skipped, err
		}
		for _, item := range items {
			if err := out.add(item); err != nil {
				return out.n, skipped, err
			}
		}
	}
	return out.n, skipped, out.finish()
}

func (s *Store) freeze(ctx context.Context, action Action, targets []Target, skipped map[string]int64) ([]PlanItem, error) {
	known := make([]Target, 0, len(targets))
	for _, t := range targets {
		if t.ID == "" {
			skipped[NotFound]++
			continue
		}
		known = append(known, t)
	}
	outcomes, err := s.Preview(ctx, action, known)
	if err != nil {
		return nil, err
	}
	hashes, err := s.hashes(ctx, action, known)
	if err != nil {
		return nil, err
	}
	var items []PlanItem
	for i, t := range known {
		if o := outcomes[i].Outcome; o != action.Success() {
			skipped[o]++
			continue
		}
		hash, found := hashes[t.ID]
		if !found { // cleanup has removed it since the preview
			skipped[NotFound]++
			continue
		}
		item := PlanItem{ID: t.ID, PayloadSHA256: hash}
		if action == Republish {
			at := t.At.UTC()
			item.PublishedAt = &at
		} else {
			item.EventID = t.EventID
		}
		items = append(items, item)
	}
	return items, nil
}

func (s *Store) hashes(ctx context.Context, action Action, targets []Target) (map[string]string, error) {
	ids := make([]string, len(targets))
	for i, t := range targets {
		ids[i] = t.ID
	}
	sql := selectHashes
	if action.OnEvents() {
		sql = selectEventHashes
	}
	rows, err := s.db.Query(ctx, sql, ids)
	if err != nil {
		return nil, fmt.Errorf("read payload digests: %w", err)
	}
	hashes := make(map[string]string, len(ids))
	var id, hash string
	_, err = pgx.ForEachRow(rows, []any{&id, &hash}, func() error { hashes[id] = hash; return nil })
	if err != nil {
		return nil, fmt.Errorf("read payload digests: %w", err)
	}
	return hashes, nil
}

// drift finds, of a plan's targets, those that carry something else than when
// the plan was made.
func (s *Store) drift(ctx context.Context, p RunParams, targets []Target) (map[string]string, error) {
	if p.Plan == nil {
		return nil, nil
	}
	ctx, cancel := finishing(ctx)
	defer cancel()
	hashes, err := s.hashes(ctx, p.Action, targets)
	if err != nil {
		return nil, err
	}
	judged := map[string]string{}
	for _, t := range targets {
		if hash, ok := hashes[t.ID]; ok && hash != t.Hash {
			judged[t.ID] = Changed
		}
	}
	return judged, nil
}

// creditPlan marks what an earlier, interrupted run of the same plan did, so
// that it is not taken for what others did.
func (s *Store) creditPlan(ctx context.Context, p RunParams, outcomes []Outcome) error {
	if p.Plan == nil {
		return nil
	}
	var doubtful []string
	for _, o := range outcomes {
		if !p.did(o) && o.EventID != "" {
			doubtful = append(doubtful, o.EventID)
		}
	}
	if len(doubtful) == 0 {
		return nil
	}
	ctx, cancel := finishing(ctx)
	defer cancel()
	done, err := collect(ctx, s.db, pgx.RowTo[string], selectDoneByPlan, string(p.Action), p.Plan.CreatedAt, p.Plan.ID, doubtful)
	if err != nil {
		return fmt.Errorf("look for earlier runs of the plan: %w", err)
	}
	byPlan := make(map[string]bool, len(done))
	for _, id := range done {
		byPlan[id] = true
	}
	for i, o := range outcomes {
		if !p.did(o) && byPlan[o.EventID] {
			outcomes[i].Outcome = DoneByPlan
		}
	}
	return nil
}

// ErrPlan marks a file that is not a plan this version can apply.
var ErrPlan = errors.New("not a usable plan")
