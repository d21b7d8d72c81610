package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// Thresholds beyond which a figure is worth a remark.
const (
	manyDead = 50_000
	fewPins  = 10 // are named, the oldest first
)

func (d Database) vacuum(ctx context.Context) ([]Finding, error) {
	var live, dead int64
	var last *time.Time
	var enabled bool
	err := d.Pool.QueryRow(ctx, `
SELECT s.n_live_tup, s.n_dead_tup, greatest(s.last_vacuum, s.last_autovacuum),
       coalesce((SELECT option_value::boolean FROM pg_options_to_table(c.reloptions) WHERE option_name = 'autovacuum_enabled'), true)
  FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
 WHERE s.relid = to_regclass('outbox_events')`).Scan(&live, &dead, &last, &enabled)
	if err != nil {
		return nil, err
	}
	if !enabled {
		return fail("ALTER TABLE outbox_events RESET (autovacuum_enabled)", "autovacuum is switched off for outbox_events"), nil
	}
	when := "never"
	if last != nil {
		when = words.Relative(*last, d.Now())
	}
	if dead > manyDead && dead > live/2 {
		return warn("look for a pinned xmin below; otherwise VACUUM outbox_events, and lower autovacuum_vacuum_scale_factor for it",
			"%s dead rows against %s living, vacuumed %s", words.Count(dead), words.Count(live), when), nil
	}
	return ok("%s dead rows against %s living, vacuumed %s", words.Count(dead), words.Count(live), when), nil
}

// xmin finds what keeps vacuum from removing dead rows: a pinned horizon makes every claim walk
// them.
func (d Database) xmin(ctx context.Context) ([]Finding, error) {
	const pinning = `
SELECT 'session ' || pid || ' (' || coalesce(nullif(application_name, ''), usename, '?') || ', ' || coalesce(state, '?') || ')',
       now() - least(xact_start, query_start), coalesce(query_start, xact_start)
  FROM pg_stat_activity
 WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() AND now() - least(xact_start, query_start) > $1::interval
UNION ALL
SELECT 'prepared transaction ' || gid, now() - prepared, prepared FROM pg_prepared_xacts WHERE now() - prepared > $1::interval
UNION ALL
SELECT 'replication slot ' || slot_name || CASE WHEN active THEN '' ELSE ' (inactive)' END, NULL, NULL
  FROM pg_replication_slots WHERE (xmin IS NOT NULL OR catalog_xmin IS NOT NULL) AND NOT active
 ORDER BY 2 DESC NULLS LAST`
	var pins []string
	var who string
	var age *time.Duration
	var since *time.Time
	into := []any{&who, &age, &since}
	err := outbox.Each(ctx, d.Pool, "read who pins it", pinning, []any{d.XminHeldFor}, into, func() {
		text := who + " pins xmin"
		if age != nil && since != nil {
			text = fmt.Sprintf("%s has pinned xmin for %s (query began %s)", who, age.Round(time.Second), since.UTC().Format(time.RFC3339))
		}
		pins = append(pins, text)
	})
	switch more := len(pins) - fewPins; {
	case err != nil:
		return nil, err
	case len(pins) == 0:
		return ok("no session has pinned it for more than %s", d.XminHeldFor), nil
	case more > 0:
		pins = append(pins[:fewPins], fmt.Sprintf("and %d more", more))
	}
	return warn("end it (pg_terminate_backend, COMMIT or ROLLBACK PREPARED, pg_drop_replication_slot): claims slow down while it stands",
		"%s", strings.Join(pins, "; ")), nil
}

// leases finds leases whose publisher will not come back. Their events are not lost: the next claim
// frees them.
func (d Database) leases(ctx context.Context) ([]Finding, error) {
	var expired, far int64
	err := d.Pool.QueryRow(ctx, `
SELECT count(*) FILTER (WHERE until < now()), count(*) FILTER (WHERE until > now() + interval '1 hour') FROM outbox_leases`).Scan(&expired, &far)
	if err != nil {
		return nil, err
	}
	switch {
	case far > 0:
		return warn("lower publish.lease, or wait: another publisher cannot have their events earlier", "leases for more than an hour: %s", words.Count(far)), nil
	case expired > 0:
		return warn("start a publisher: it takes them over by itself", "expired leases: %s; their events wait to be taken over", words.Count(expired)), nil
	default:
		return ok("no expired leases"), nil
	}
}
