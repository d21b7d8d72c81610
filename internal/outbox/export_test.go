package outbox

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/outboxctl/outboxctl/emit"
)

const (
	EmitBatchEvents = emitBatchEvents
	ReadAtOnce      = readAtOnce
)

// EmitPrepared writes and commits lines, and asks no longer than patience what became of them.
func (o *Outbox) EmitPrepared(ctx context.Context, emitter *emit.Emitter, patience time.Duration, lines map[int]emit.Prepared) error {
	w := o.emitWriter(emitter, nil)
	w.patience = patience
	var all []emitLine
	for _, n := range slices.Sorted(maps.Keys(lines)) {
		all = append(all, emitLine{n, lines[n]})
	}
	if err := w.write(ctx, all); err != nil {
		return err
	}
	return w.failed(ctx, w.commit(ctx))
}
