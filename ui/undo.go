package ui

import (
	"cmp"
	"strings"

	"github.com/outboxctl/outboxctl/internal/dlq"
)

// undo takes a run back: a discard or a restore by a plan, which is confirmed as any other, a pause
// or the end of one at once.
func undo(r *changeRequest, p noted) (changed, error) {
	run, err := r.outbox.AuditRun(r.Context(), r.PathValue("run"))
	if err != nil {
		return changed{}, err
	}
	if err := run.CannotUndo(); err != nil {
		return changed{}, err
	}
	note := cmp.Or(strings.TrimSpace(p.Note), "undo of "+run.Run)
	if action := run.UndoAction(); action != "" {
		return r.planned(dlq.ChangeParams{Action: action, Undo: run, Actor: r.who.Name, Note: note})
	}
	return r.paused(r.outbox.UndoPause(r.Context(), dlq.UndoPauseParams{Run: run, Actor: r.who.Name, Note: note, Detail: r.detail()}))
}
