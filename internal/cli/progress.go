package cli

import (
	"fmt"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
)

// ProgressEvery is how often long work reports where there is no terminal to draw on.
const ProgressEvery = 10 * time.Second

// A Progress tells on Err how far long work has come: a bar on a terminal, a line every ten seconds
// elsewhere.
type Progress struct {
	app   *App
	label string
	total int64 // -1: not known

	mu    sync.Mutex
	bar   *progressbar.ProgressBar
	done  int64
	start time.Time
	last  time.Time
}

// NewProgress starts to report on work of total steps; -1 when their number is not known.
func (a *App) NewProgress(label string, total int64) *Progress {
	now := a.Now()
	p := &Progress{app: a, label: label, total: total, start: now, last: now}
	if a.ErrTTY {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(a.Err),
			progressbar.OptionSetDescription(label),
			progressbar.OptionShowCount(),
			progressbar.OptionShowIts(),
			progressbar.OptionSetItsString("rows"),
			progressbar.OptionSetWidth(24),
			progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionEnableColorCodes(false),
			// Else a bar of unknown length is drawn over the summary, by a goroutine that nothing ends.
			progressbar.OptionSetSpinnerChangeInterval(0),
		)
	}
	return p
}

// Add reports n more steps.
func (p *Progress) Add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += n
	if p.bar != nil {
		_ = p.bar.Add64(n) // a bar that cannot be drawn is no reason to stop the work
		return
	}
	if now := p.app.Now(); now.Sub(p.last) >= ProgressEvery {
		p.last = now
		fmt.Fprintln(p.app.Err, p.line(now))
	}
}

func (p *Progress) line(now time.Time) string {
	of := ""
	if p.total >= 0 {
		of = " of " + humanize.Comma(p.total)
	}
	rate := float64(p.done) / max(now.Sub(p.start).Seconds(), 0.001)
	return fmt.Sprintf("%s: %s%s, %s/s", p.label, humanize.Comma(p.done), of,
		humanize.Comma(int64(rate)))
}

// Done takes the bar away, so that the summary stands alone.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}
