package ui

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// pauseTopic makes publishers leave a topic alone: for a while such as 2h, or until it is resumed.
func pauseTopic(r *changeRequest) (changed, error) {
	var p struct {
		Note string `json:"note"`
		For  string `json:"for"`
	}
	if err := r.decode(&p); err != nil {
		return changed{}, err
	}
	params := r.pause(p.Note)
	if text := strings.TrimSpace(p.For); text != "" {
		var err error
		if params.For, err = words.ParseDuration(text); err != nil || params.For < time.Second {
			return changed{}, fault.Usagef("for: %q is not a time of a second or more, such as 2h", text)
		}
	}
	if err := r.outbox.CheckPause(r.Context(), &params); err != nil {
		return changed{}, err
	}
	return r.paused(params, r.outbox.Pause)
}

func resumeTopic(r *changeRequest) (changed, error) {
	var p struct {
		Note string `json:"note"`
	}
	if err := r.decode(&p); err != nil {
		return changed{}, err
	}
	return r.paused(r.pause(p.Note), r.outbox.Resume)
}

func (r *changeRequest) pause(note string) outbox.PauseParams {
	return outbox.PauseParams{Kind: outbox.PauseTopic, Value: r.PathValue("topic"), Actor: r.who.Name, Note: strings.TrimSpace(note), Detail: r.detail()}
}

// paused makes or ends a pause. The figures that are shown until the next snapshot have it at once.
func (r *changeRequest) paused(p outbox.PauseParams, do func(context.Context, outbox.PauseParams) (outbox.PauseResult, error)) (changed, error) {
	if p.Note == "" {
		return changed{}, fault.Usagef("say why, for the audit")
	}
	found, err := do(r.Context(), p)
	if err != nil {
		return changed{}, err
	}
	held, err := r.outbox.Pauses(r.Context())
	if err == nil {
		r.h.snapshots.pauses(held)
	}
	return changed{at: "/topics", status: http.StatusOK, body: found}, err
}
