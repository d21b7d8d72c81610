package dlq

import (
	"context"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/words"
)

// exportAtOnce bounds how many payloads are in memory.
const exportAtOnce = 100

// ExportParams describes which dead letters to export: by a filter or, when there is none, by ids.
type ExportParams struct {
	Filter *Filter
	// IDs may be dead letters' or events', as ParseID returns them. No ids export nothing.
	IDs []string
}

// ExportResult counts what Export did.
type ExportResult struct {
	Written int64
	// Missing counts the ids that have no dead letter, and what was erased.
	Missing int64
}

// Export passes dead letters, oldest first, to each as new events that can be corrected and emitted. Ids without a dead
// letter are an error after everything else was exported.
func (o *Outbox) Export(ctx context.Context, p ExportParams, each func(Export) error) (ExportResult, error) {
	var r ExportResult
	var source Source = o.store().NamedEntries(p.IDs, StateOpen)
	if p.Filter != nil {
		filter := *p.Filter
		err := o.SettleAggregate(ctx, &filter.AggregateType, &filter.AggregateIDs)
		if err != nil {
			return r, err
		}
		if source, err = o.store().NewScan(filter, outbox.OldestFirst); err != nil {
			return r, fault.As(fault.Usage, err)
		}
	}
	for {
		targets, err := source.Next(ctx, exportAtOnce)
		if err != nil {
			return r, err
		}
		if len(targets) == 0 {
			return r, r.verdict()
		}
		exports, err := o.export(ctx, targets)
		if err != nil {
			return r, err
		}
		for _, e := range exports {
			if err := each(e); err != nil {
				return r, err
			}
			r.Written++
		}
		r.Missing += int64(len(targets) - len(exports))
	}
}

// export reads dead letters as new events, under the names that their types have now: a former one is not emitted.
func (o *Outbox) export(ctx context.Context, targets []Target) ([]Export, error) {
	exports, err := o.store().Export(ctx, targets)
	for i, e := range exports {
		if t, known := o.Registry.Find(e.Namespace, e.Type); known {
			exports[i].Type = t.Name
		}
	}
	return exports, err
}

func (r ExportResult) verdict() error {
	switch {
	case r.Missing > 0 && r.Written > 0:
		return fault.Partialf("%s of the dead letters are not found, or erased", words.Count(r.Missing))
	case r.Missing > 0:
		return fault.NotFoundf("no dead letter has that id, or it was erased")
	default:
		return nil
	}
}
