package ui

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/fault"
)

// Finding is something that doctor found, with its remedy.
type Finding = doctor.Finding

// Setting is one key of the configuration as it is shown: what is secret is hidden already.
type Setting struct {
	Key    string   `json:"key"`
	Value  string   `json:"value"`
	Origin string   `json:"origin"`
	Flag   string   `json:"flag,omitempty"`
	Env    []string `json:"env"`
}

const (
	// examinationKept is how long one examination is good for, for all who ask. It asks the broker and
	// Redis, too.
	examinationKept  = time.Minute
	examinationLimit = 20 * time.Second
)

// examination is what doctor found, and when.
type examination struct {
	At       time.Time
	Findings []Finding
}

// examiner runs doctor on request, one at a time.
type examiner struct {
	run func(context.Context) ([]Finding, error)

	mu   sync.Mutex
	last examination
}

// examine returns an examination of the last minute; again asks for a new one.
func (e *examiner) examine(ctx context.Context, again bool) (examination, error) {
	if e.run == nil {
		return examination{}, fault.NotFoundf("this page was started without doctor")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	kept := examinationKept
	if again {
		kept = time.Second // a second click is the same question
	}
	if time.Since(e.last.At) < kept {
		return e.last, nil
	}
	// The caller may go away; the answer is for all.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), examinationLimit)
	defer cancel()
	findings, err := e.run(ctx)
	if err != nil {
		return examination{}, err
	}
	if findings == nil {
		findings = []Finding{}
	}
	e.last = examination{time.Now(), findings}
	return e.last, nil
}

type doctorData struct {
	examination
	// Wrong are the findings that need an operator, Right the others.
	Wrong, Right []Finding
}

func doctorPage(r *request) (*view, error) {
	if one(r.URL.Query(), "again", "") != "" {
		if _, err := r.h.examiner.examine(r.Context(), true); err != nil {
			return nil, err
		}
		return &view{redirect: "/doctor"}, nil
	}
	found, err := r.h.examiner.examine(r.Context(), false)
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

func doctorAPI(r *request) (answer, error) {
	found, err := r.h.examiner.examine(r.Context(), false)
	return answer{body: found.Findings}, err
}

type settingsData struct {
	Settings []Setting
	ReadRole string
}

func settingsPage(r *request) (*view, error) {
	d := settingsData{Settings: r.h.cfg.Settings, ReadRole: r.h.cfg.ReadRole}
	return &view{Title: "Settings", Command: "outboxctl config view", template: "settings", Data: d}, nil
}

func configAPI(r *request) (answer, error) {
	if r.h.cfg.Settings == nil {
		return answer{}, statusError{http.StatusNotFound, fault.NotFoundf("this page was started without a configuration to show")}
	}
	return answer{body: r.h.cfg.Settings}, nil
}
