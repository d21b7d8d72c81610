package score

import (
	"fmt"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/lab/check"
)

// Torture is the row of a torture run. A run that proves nothing has none.
func (s Stamp) Torture(name string, r check.Report) (Row, error) {
	if !r.Valid {
		return Row{}, fmt.Errorf("the run proves nothing and does not go on the scoreboard: %s",
			strings.Join(r.Invalid, "; "))
	}
	f := r.Figures
	faults, network := 0, 0
	for kind, n := range f.Faults {
		faults += n
		if strings.HasPrefix(kind, "network.") {
			network += n
		}
	}
	killed, restarted := f.Exits["killed"], f.Faults["postgres.restart"]
	enough := faults >= 40 && f.Duration >= 3*time.Minute && f.Rate >= 300
	if name == "R2" {
		enough = killed >= 300 && restarted >= 30 && network >= 150 && f.Duration >= time.Hour
	}
	verdict := judge(len(r.Violations) == 0, true, "").verdict
	if verdict == Met && !enough {
		verdict = MetSmaller
	}
	s.Seed = f.Seed
	return s.RowOf(name, fmt.Sprintf("%s at %d events/s: %d events committed, %d rolled back, %d faults (%d SIGKILL, %d database restarts, %d network), %d duplicates; %d violations",
		f.Duration.Round(time.Second), f.Rate, f.Committed, f.RolledBack, faults, killed, restarted, network, f.Duplicates, len(r.Violations)), verdict)
}

// Mutants is the row of a hunt for planted bugs.
func (s Stamp) Mutants(planted int, survived []string) (Row, error) {
	figure := fmt.Sprintf("%d planted, %d found", planted, planted-len(survived))
	if len(survived) > 0 {
		figure += "; not found: " + strings.Join(survived, ", ")
	}
	return s.RowOf("R4", figure, judge(len(survived) == 0, true, "").verdict)
}
