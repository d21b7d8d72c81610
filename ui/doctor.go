package ui

import (
	"context"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// Finding is something that doctor found, with its remedy.
type Finding = doctor.Finding

// Setting is one key of the configuration as it is shown: what is secret is hidden already.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
	// Flag is the flag that sets it, Env are the variables.
	Flag string   `json:"flag,omitempty"`
	Env  []string `json:"env"`
}

const (
	examinationKept  = time.Minute // it asks the broker and Redis, too
	examinationLimit = 20 * time.Second
)

type examination struct {
	At       time.Time
	Findings []Finding
}

// kept is an answer that is good for a while, for all who ask.
type kept[T any] struct {
	mu   sync.Mutex
	at   time.Time
	last T
}

// get returns the last answer, and asks again when it is as old as life. The caller may go away:
// the answer is for all.
func (k *kept[T]) get(ctx context.Context, life time.Duration, ask func(context.Context) (T, error)) (last T, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.at) < life {
		return k.last, nil
	}
	if last, err = ask(context.WithoutCancel(ctx)); err == nil {
		k.last, k.at = last, time.Now()
	}
	return last, err
}

// examine runs doctor, unless it did so within the time that its answer is kept.
func (r *request) examine(life time.Duration) (examination, error) {
	if r.h.cfg.Doctor == nil {
		return examination{}, fault.NotFoundf("this page was started without doctor")
	}
	return r.h.examined.get(r.Context(), life, func(ctx context.Context) (examination, error) {
		ctx, cancel := context.WithTimeout(ctx, examinationLimit)
		defer cancel()
		findings, err := r.h.cfg.Doctor(ctx)
		return examination{time.Now(), findings}, err
	})
}

type doctorData struct {
	examination
	// Wrong are the findings that need an operator, Right the others.
	Wrong, Right []Finding
}

func doctorPage(r *request) (*view, error) {
	if one(r.URL.Query(), "again", "") != "" {
		if _, err := r.examine(time.Second); err != nil { // a second click is the same question
			return nil, err
		}
		return &view{redirect: "/doctor"}, nil
	}
	found, err := r.examine(examinationKept)
	if err != nil {
		return nil, err
	}
	d := doctorData{examination: found}
	for _, level := range []doctor.Level{doctor.Fail, doctor.Warn, doctor.OK} {
		for _, f := range found.Findings {
			switch {
			case f.Level != level:
			case level == doctor.OK:
				d.Right = append(d.Right, f)
			default:
				d.Wrong = append(d.Wrong, f)
			}
		}
	}
	return &view{Title: "Doctor", Command: "outboxctl doctor", template: "doctor", Data: d}, nil
}

type settingsData struct {
	Settings []Setting
	ReadRole string
}

func settingsPage(r *request) (*view, error) {
	d := settingsData{Settings: r.h.cfg.Settings, ReadRole: r.h.cfg.ReadRole}
	return &view{Title: "Settings", Command: "outboxctl config view", template: "settings", Data: d}, nil
}
