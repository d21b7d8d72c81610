package cmd

import (
	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

func newEventRepublishCmd(app *cli.App) *cobra.Command {
	filter := &outbox.Query{Status: dlq.Republish.State()}
	cmd := &cobra.Command{
		Use:   "republish [ID... | -]",
		Short: "Publish published events once more, for a consumer that came later",
		Long: `Queue events that were published already, so that they are published once more. Every
consumer of their topic gets them again; a consumer that remembers them skips them.

Specify ids (- reads them from standard input) or filters. --since and --until limit the time of
publication. A set chosen by filters ends when the command starts, and an event that has been
published again since it was chosen is left alone, so no event of the set is republished twice.`,
		Example: `  outboxctl event republish --type order_created --since 7d --dry-run
  outboxctl event republish --type order_created --since 7d --rate 100/s --yes --note 'new search index'
  outboxctl event republish --topic domain --since 2026-03-01T12:00:00Z --note 'its subscription was replaced'`,
	}
	addFilterFlags(cmd, filter, "published", "status")
	opts := &changeOptions{app: app, action: dlq.Republish, filter: filter}
	return changing(cmd, opts, addReplayFlags)
}

func newEventRetryCmd(app *cli.App) *cobra.Command {
	return changing(&cobra.Command{
		Use:   "retry [ID... | -]",
		Short: "Try events that back off, or are scheduled, now",
		Long: `Make events that wait after a failed attempt, or for their time, due now: the cause
is gone, or the event cannot wait. Attempts that were counted stay counted; events that are due,
being published, published or dead are left alone. - reads the ids from standard input.`,
		Example: `  outboxctl event retry 01890a5d-ac96-774b-bcce-b302099a8057 --wait --yes --note 'topic is back'
  outboxctl event list --status pending --type order_created -o id | outboxctl event retry - --yes`,
	}, &changeOptions{app: app, action: dlq.Retry}, addWaitFlags)
}

func newEraseCmd(app *cli.App) *cobra.Command {
	filter := &outbox.Query{Status: outbox.AllStates}
	opts := &changeOptions{app: app, action: dlq.Erase, filter: filter}
	cmd := &cobra.Command{
		Use:   "erase [EVENT... | -]",
		Short: "Remove what events carry, for good",
		Long: `Remove payload and headers of published and dead events, the copies in their dead
letters, and the error messages, which may quote them. The rows stay, with ids, types, times, keys
and the audit. It cannot be undone: an erased event is not replayed, republished or corrected.

Specify ids (an event's or a dead letter's; - reads them from standard input), an aggregate, or a
tenant. An event that waits to be published is left alone unless --discard is given: then it is
never published, and what waits behind it in its ordering key goes on. One that is being published
is left alone: try again.

Erase does not reach messages that the broker or a consumer has, backups, replicas, PostgreSQL's
logs (WAL) and, on disk, old versions of the rows until VACUUM FULL outbox_events, outbox_dlq,
outbox_consumer_failures. Keys and aggregate ids stay: do not put personal data there.`,
		Example: `  outboxctl erase 01890a5d-ac96-774b-bcce-b302099a8057 --note 'request 4711'
  outboxctl erase --aggregate license/11111111-1111-7111-8111-111111111111 --dry-run
  outboxctl erase --tenant 22222222-2222-7222-8222-222222222222 --discard --yes --note 'contract ended'`,
	}
	changing(cmd, opts)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if _, ids, err := outbox.ParseAggregate(filter.Aggregate); err == nil && filter.Aggregate != "" && len(ids) == 0 {
			return fault.Usagef("--aggregate %s: name one aggregate, as TYPE/ID", filter.Aggregate)
		}
		return run(cmd, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&filter.Aggregate, "aggregate", "", "the events of one aggregate, as `TYPE/ID`")
	flags.StringSliceVar(&filter.Tenants, "tenant", nil, "the events of this `tenant`")
	flags.BoolVar(&opts.discard, "discard", false, "erase also what waits to be published, which is then never published")
	return cmd
}
