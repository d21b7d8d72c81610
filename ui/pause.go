package ui

import (
	"net/http"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// pauseRequest asks for a pause: for a while such as 2h, or until it is resumed.
type pauseRequest struct {
	noted

	For string `json:"for"`
}

func pauseTopic(r *request, p pauseRequest) (answer, error) {
	params, err := r.pause(p.Note)
	if err != nil {
		return answer{}, err
	}
	if text := strings.TrimSpace(p.For); text != "" {
		if params.For, err = words.ParseDuration(text); err != nil || params.For < time.Second {
			return answer{}, fault.Usagef("for: %q is not a time of a second or more, such as 2h", text)
		}
	}
	if err := r.outbox.CheckPause(r.Context(), &params); err != nil {
		return answer{}, err
	}
	return r.paused(r.outbox.Pause(r.Context(), params))
}

func resumeTopic(r *request, p noted) (answer, error) {
	params, err := r.pause(p.Note)
	if err != nil {
		return answer{}, err
	}
	return r.paused(r.outbox.Resume(r.Context(), params))
}

func (r *request) pause(note string) (p outbox.PauseParams, err error) {
	if note = strings.TrimSpace(note); note == "" {
		return p, fault.Usagef("say why, for the audit")
	}
	return outbox.PauseParams{Kind: outbox.PauseTopic, Value: r.PathValue("topic"), Actor: r.who.Name, Note: note, Detail: r.detail()}, nil
}

// paused answers with what became of a pause, which the figures have before the next snapshot.
func (r *request) paused(found outbox.PauseResult, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	held, err := r.outbox.Pauses(r.Context())
	if err == nil {
		r.h.snapshots.pauses(held)
	}
	return answer{at: "/topics", status: http.StatusOK, body: found}, err
}
