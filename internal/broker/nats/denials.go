package nats

import (
	"errors"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// denials tells those who wait for an answer that there will be none: a server says of a
// publish that it does not permit only so much, and to nobody in particular.
type denials struct {
	mu      sync.Mutex
	waiting map[*denial]struct{}
}

// denial is one who waits. C is closed when what it waits for was denied.
type denial struct {
	subject string
	err     error
	c       chan struct{}
}

// wait registers until done is called.
func (d *denials) wait(subject string) (w *denial, done func()) {
	w = &denial{subject: subject, c: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.waiting == nil {
		d.waiting = make(map[*denial]struct{})
	}
	d.waiting[w] = struct{}{}
	return w, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.waiting, w)
	}
}

// heard takes an asynchronous error of the connection, as
//
//	nats: permissions violation: Permissions Violation for Publish to "shop.orders"
//
// One that is about another thing than publishing, as the subscription on which answers
// arrive, concerns everybody.
func (d *denials) heard(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	_, subject, _ := strings.Cut(err.Error(), `Publish to "`)
	subject, _, _ = strings.Cut(subject, `"`)
	d.mu.Lock()
	defer d.mu.Unlock()
	for w := range d.waiting {
		if subject == "" || w.subject == subject {
			w.err = err
			close(w.c)
			delete(d.waiting, w)
		}
	}
}
