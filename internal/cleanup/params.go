package cleanup

import (
	"context"
	"errors"

	"github.com/prometheus/common/model"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// Validate refuses a cleanup that removes nothing, inbox rows that Redis may still lose (a flushed Redis would then let
// their effects happen again), or young audit rows. A face calls it before it opens anything.
func (p Params) Validate() error {
	switch {
	case p.OlderThan == nil && p.DLQOlderThan == nil && p.InboxOlderThan == nil && p.AuditOlderThan == nil:
		return fault.Hint(fault.Usagef("specify what to remove: --older-than, --dlq-older-than, --inbox-older-than, --audit-older-than"),
			"outboxctl cleanup --older-than 30d --dry-run counts first")
	case p.MaxRows < 0:
		return fault.Usagef("--max-rows must not be negative")
	case p.InboxOlderThan != nil && *p.InboxOlderThan < p.IdempotencyTTL:
		return fault.Hint(fault.Usagef("--inbox-older-than %s is less than idempotency.ttl (%s)", model.Duration(*p.InboxOlderThan), model.Duration(p.IdempotencyTTL)),
			"the inbox keeps an effect single when Redis has lost the event's key, so it has to remember for at least as long")
	case p.AuditOlderThan != nil && *p.AuditOlderThan < MinAuditAge:
		return fault.Hint(fault.Usagef("--audit-older-than %s is less than 7d", model.Duration(*p.AuditOlderThan)),
			"the last days of the audit trail are always kept, so that an operator cannot wipe out what they did")
	}
	return nil
}

// unfinished gives an error its kind: some of the run may be done already.
func unfinished(result Result, err error) error {
	switch {
	case err == nil:
		return nil
	case result.Rows() > 0 && !errors.Is(err, context.Canceled):
		return fault.Hint(fault.As(fault.Partial, err), "what was removed stays removed; run the same command again to continue")
	case errors.Is(err, ErrBusy):
		return fault.Hint(fault.As(fault.Precondition, err), "one cleaner works at a time; this one removed nothing. If the process is no cleanup, pg_terminate_backend ends it")
	default:
		return err
	}
}
