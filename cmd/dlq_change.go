package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func newDLQReplayCmd(app *cli.App) *cobra.Command {
	return changingDead(app, dlq.Replay, &cobra.Command{
		Use:   "replay [ID... | -]",
		Short: "Send dead events again",
		Long: `Send the events of dead letters again: the original row is queued again, with no
attempts counted and no error. The dead letter is marked as replayed, with who did it and why, in
the same transaction.

Specify ids (a dead letter's or an event's; - reads them from standard input) or filters. A set
chosen by filters ends when the command starts: what dies later is not replayed by it. The set is
kept in the database as a plan, which is then run; --plan only makes it, for outboxctl plan run or
the web page. outboxctl plan run resumes an interrupted run.

--ramp replays 1, 2, 5, 20, … events, waits for the outcome of each step and stops when more than
--abort-if-dead of them die again. An event that failed but is still being retried when --watch-for
is over counts with the dead.

--wait does not end before it is known what became of the events: published, dead (again), failing
(still being retried) or waiting when --timeout is over. The exit code is 0 when all were published,
and 5 otherwise.

A consumer that has already processed an event will skip it when it comes again. --check-consumers
shows how many of the set each has processed:

  not processed, replayed            the consumer processes it
  processed, replayed                the consumer skips it: nothing happens twice
  not processed, forgotten, replayed the same as without forgetting
  processed, forgotten, replayed     the consumer processes it a second time; use outboxctl consumer forget for that`,
		Example: `  outboxctl dlq replay 01890a5d-ac96-774b-bcce-b302099a8057 --note 'topic was missing'
  outboxctl dlq replay --fingerprint 3f2a9c11d0be --dry-run
  outboxctl dlq replay --fingerprint 3f2a9c11d0be --wait --timeout 2m --yes --note 'consumer corrected'
  outboxctl dlq replay --reason max_attempts --since 2h --abort-if-dead 5% --rate 200/s --yes --note 'broker is back'
  outboxctl dlq replay --type payment_settled --plan`,
	}, addReplayFlags, addForceFlag)
}

func newDLQDiscardCmd(app *cli.App) *cobra.Command {
	return changingDead(app, dlq.Discard, &cobra.Command{
		Use:   "discard [ID... | -]",
		Short: "Mark dead letters as not worth replaying",
		Long: `Mark dead letters as handled without sending their events. The mark can be taken back
with outboxctl dlq restore until cleanup removes the row. Specify ids (a dead letter's or an
event's; - reads them from standard input) or filters.`,
		Example: `  outboxctl dlq discard 01890a5d-ac96-774b-bcce-b302099a8057 --note 'test order'
  outboxctl dlq discard --reason invalid_payload --until 30d --yes --note 'no longer needed'`,
	})
}

func newDLQRestoreCmd(app *cli.App) *cobra.Command {
	return changingDead(app, dlq.Restore, &cobra.Command{
		Use:   "restore [ID... | -]",
		Short: "Take a discard back",
		Long: `Make discarded dead letters open again. Specify ids (a dead letter's or an event's; -
reads them from standard input) or filters.`,
		Example: "  outboxctl dlq restore 01890a5d-ac96-774b-bcce-b302099a8057 --note 'discarded by mistake'",
	})
}

// changingDead completes a command that changes dead letters, chosen by ids or filters.
func changingDead(app *cli.App, action dlq.Action, cmd *cobra.Command,
	flags ...changeFlags) *cobra.Command {
	filter := &outbox.Query{State: action.State()}
	addFilterFlags(cmd, filter, "that died", "state")
	return changing(cmd, &changeOptions{app: app, action: action, filter: filter}, flags...)
}
