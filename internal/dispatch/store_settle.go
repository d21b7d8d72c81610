package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/outboxctl/outboxctl/internal/failpoint"
)

// Settle implements Store.
func (s *SQLStore) Settle(ctx context.Context, v Verdicts) (Settled, error) {
	if v.Len() == 0 {
		return Settled{}, nil
	}
	b := newBatch()
	var n Settled
	counts := s.queue(b, v, &n)
	b.Queue(`COMMIT`)
	br := s.settles.SendBatch(ctx, b)
	failpoint.Hit(failpoint.Settling)
	if len(v.Dead) > 0 {
		failpoint.Hit(failpoint.DeadLettering)
	}
	err := readSettle(br, counts)
	if closed := br.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return Settled{}, fmt.Errorf("settle events: %w", settleError(reconnect(s.settles, err)))
	}
	failpoint.Hit(failpoint.Settled)
	return n, nil
}

// queue adds the fence, one statement per kind of verdict, and what takes all rows out
// of their leases. It returns where each verdict counts the rows it changed.
func (s *SQLStore) queue(b *pgx.Batch, v Verdicts, n *Settled) (counts []*int) {
	all := v.keys()
	leases := leasesOf(all)
	b.Queue(fenceSQL, s.owner, leases)
	add := func(sql string, count *int, keys []Key, more ...any) {
		b.Queue(sql, append([]any{
			s.owner, leases, column(keys, func(k Key) string { return k.ID }),
			column(keys, func(k Key) int64 { return k.Lease }), column(keys, func(k Key) int64 { return k.Seq }),
		}, more...)...)
		counts = append(counts, count)
	}
	if len(v.Published) > 0 {
		add(publishedSQL, &n.Published, column(v.Published, func(d Published) Key { return d.Key }),
			column(v.Published, func(d Published) string { return d.MessageID }))
	}
	if len(v.Failed) > 0 {
		add(failedSQL, &n.Failed, column(v.Failed, func(f Failed) Key { return f.Key }),
			column(v.Failed, func(f Failed) string { return f.Error }),
			column(v.Failed, func(f Failed) int64 { return f.Delay.Microseconds() }),
			column(v.Failed, func(f Failed) int32 { return charge(!f.Free) }))
	}
	if len(v.Dead) > 0 {
		add(deadSQL, &n.Dead, column(v.Dead, func(d Dead) Key { return d.Key }),
			column(v.Dead, func(d Dead) string { return string(d.Reason) }),
			column(v.Dead, func(d Dead) string { return d.Error }),
			column(v.Dead, func(d Dead) string { return d.Topic }),
			column(v.Dead, func(d Dead) string { return d.Fingerprint }),
			column(v.Dead, func(d Dead) int32 { return charge(d.Attempted) }))
	}
	if len(v.Released) > 0 {
		b.Queue(releasedSQL, s.owner, leases, column(v.Released, func(k Key) int64 { return k.Lease }),
			column(v.Released, func(k Key) int64 { return k.Seq }))
		counts = append(counts, &n.Released)
	}
	ids, first, last := ranges(all)
	b.Queue(shrinkSQL, s.owner, ids, first, last)
	return counts
}

func readSettle(br pgx.BatchResults, counts []*int) error {
	if err := readBegin(br); err != nil {
		return err
	}
	if err := skip(br, 1); err != nil {
		return err
	}
	for _, count := range counts {
		tag, err := br.Exec()
		if err != nil {
			return err
		}
		*count = int(tag.RowsAffected())
	}
	if err := skip(br, 1); err != nil {
		return err
	}
	return readCommit(br)
}

// keys are those of all rows with a verdict, by lease and seq.
func (v Verdicts) keys() []Key {
	all := slices.Concat(column(v.Published, func(d Published) Key { return d.Key }),
		column(v.Failed, func(f Failed) Key { return f.Key }), column(v.Dead, func(d Dead) Key { return d.Key }), v.Released)
	slices.SortFunc(all, func(a, b Key) int { return cmp.Or(cmp.Compare(a.Lease, b.Lease), cmp.Compare(a.Seq, b.Seq)) })
	return all
}

// leasesOf lists the leases of sorted keys.
func leasesOf(sorted []Key) []int64 {
	return slices.Compact(column(sorted, func(k Key) int64 { return k.Lease }))
}

// ranges are the seqs of sorted keys, as few ranges as there can be.
func ranges(sorted []Key) (leases, first, last []int64) {
	for _, k := range sorted {
		if n := len(leases) - 1; n >= 0 && leases[n] == k.Lease && k.Seq <= last[n]+1 {
			last[n] = k.Seq
			continue
		}
		leases, first, last = append(leases, k.Lease), append(first, k.Seq), append(last, k.Seq)
	}
	return leases, first, last
}

func charge(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}
