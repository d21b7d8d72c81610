package ui

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/outboxctl/outboxctl/internal/dlq"
)

// undo takes a run back: a discard or a restore by a plan, which is confirmed as any other, a pause or the end of one at once.
func undo(r *changeRequest) (changed, error) {
	var p struct {
		Note string `json:"note"`
	}
	if err := r.decode(&p); err != nil {
		return changed{}, err
	}
	run, err := r.outbox.AuditRun(r.Context(), r.PathValue("run"))
	if err != nil {
		return changed{}, err
	}
	if err := run.CannotUndo(); err != nil {
		return changed{}, err
	}
	note := cmp.Or(strings.TrimSpace(p.Note), "undo of "+run.Run)
	if action := run.UndoAction(); action != "" {
		id, err := r.h.changes.plan(r.Context(), dlq.ChangeParams{Action: action, Undo: run, Actor: r.who.Name, Note: note})
		if err != nil {
			return changed{}, err
		}
		return r.plan(id)
	}
	done, err := r.outbox.UndoPause(r.Context(), dlq.UndoPauseParams{Run: run, Actor: r.who.Name, Note: note, Detail: r.detail()})
	if err != nil {
		return changed{}, err
	}
	held, err := r.outbox.Pauses(r.Context())
	if err == nil {
		r.h.snapshots.pauses(held)
	}
	return changed{at: "/topics", status: http.StatusOK, body: done}, err
}
