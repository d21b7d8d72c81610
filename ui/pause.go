package ui

import (
	"time"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// pauseTopic pauses a topic for a while such as 2h, or until it is resumed.
func pauseTopic(r *request) (answer, error) {
	params, err := r.pause()
	if err != nil {
		return answer{}, err
	}
	if text := r.field("for"); text != "" {
		if params.For, err = words.ParseDuration(text); err != nil || params.For < time.Second {
			return answer{}, fault.Usagef("for: %q is not a time of a second or more, such as 2h", text)
		}
	}
	if err := r.outbox.CheckPause(r.Context(), &params); err != nil {
		return answer{}, err
	}
	_, err = r.outbox.Pause(r.Context(), params)
	return r.paused(err)
}

func resumeTopic(r *request) (answer, error) {
	params, err := r.pause()
	if err != nil {
		return answer{}, err
	}
	_, err = r.outbox.Resume(r.Context(), params)
	return r.paused(err)
}

func (r *request) pause() (p outbox.PauseParams, err error) {
	note := r.field("note")
	if note == "" {
		return p, fault.Usagef("say why, for the audit")
	}
	return outbox.PauseParams{Kind: outbox.PauseTopic, Value: r.PathValue("topic"), Actor: r.who.Name, Note: note, Detail: r.detail()}, nil
}

// paused leads to the topics, whose figures have the pause before the next snapshot.
func (r *request) paused(err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	held, err := r.outbox.Pauses(r.Context())
	if err == nil {
		r.h.snapshots.pauses(held)
	}
	return answer{at: "/topics"}, err
}
