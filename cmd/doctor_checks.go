package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/pubsub"
	"github.com/outboxctl/outboxctl/internal/stats"
)

// doctorChecks are all checks this configuration allows. Without a database the ones behind it cannot be made.
func doctorChecks(a *cli.App, ctx context.Context, cfg *cli.Config) []doctor.Check {
	checks := []doctor.Check{{Area: "configuration", Name: "environment", Run: func(context.Context) ([]doctor.Finding, error) {
		return environmentFindings(cfg), nil
	}}}
	pool, err := a.Pool(ctx)
	if err != nil {
		checks = append(checks, doctor.Check{
			Area: "database", Name: "connection", Remedy: "check database.url with outboxctl config view",
			Run: func(context.Context) ([]doctor.Finding, error) { return nil, err },
		})
	} else {
		database := doctor.Database{
			Pool: pool, EventTypes: a.Registry.EventTypes(), ExecMode: cfg.Database.ExecMode,
			XminHeldFor: doctor.DefaultXminHeldFor, Now: a.Now,
		}
		checks = append(checks, schemaCheck(pool))
		checks = append(checks, database.Checks()...)
		checks = append(checks, publisherCheck(a, pool, cfg))
	}
	return append(checks, brokerCheck(a, cfg), redisCheck(a, cfg))
}

// environmentFindings looks for half a laptop in a production configuration, or the reverse.
func environmentFindings(cfg *cli.Config) []doctor.Finding {
	if cfg.PubSub.Emulator != "" && cfg.Origin("database.url") != cli.OriginDev && !cli.IsLocal(databaseHost(cfg)) {
		return []doctor.Finding{{
			Level: doctor.Fail, Remedy: "unset PUBSUB_EMULATOR_HOST and OUTBOXCTL_PUBSUB_EMULATOR",
			Message: fmt.Sprintf("pubsub.emulator is %s (%s) while the database is elsewhere: events would go to an emulator", cfg.PubSub.Emulator, cfg.Origin("pubsub.emulator")),
		}}
	}
	return []doctor.Finding{{Level: doctor.OK, Message: "no emulator left set beside a remote database"}}
}

func databaseHost(cfg *cli.Config) string {
	pc, err := pgxpool.ParseConfig(cfg.Database.URL)
	if err != nil {
		return ""
	}
	return pc.ConnConfig.Host
}

func schemaCheck(pool *pgxpool.Pool) doctor.Check {
	return doctor.Check{Area: "database", Name: "schema", Run: func(ctx context.Context) ([]doctor.Finding, error) {
		v, err := migrate.Version(ctx, pool, migrate.Options{})
		switch {
		case err != nil:
			return nil, err
		case v.Database > v.Binary:
			return []doctor.Finding{{
				Level: doctor.Warn, Remedy: "upgrade outboxctl",
				Message: fmt.Sprintf("the schema is at version %d, this binary knows %d", v.Database, v.Binary),
			}}, nil
		case v.Pending > 0:
			return []doctor.Finding{{
				Level: doctor.Fail, Remedy: "outboxctl migrate",
				Message: fmt.Sprintf("the schema is at version %d of %d: %d steps are missing", v.Database, v.Binary, v.Pending),
			}}, nil
		}
		found, err := doctor.Drift(ctx, pool)
		if err == nil && found == nil {
			found = []doctor.Finding{{Level: doctor.OK, Message: fmt.Sprintf("version %d, as this binary expects", v.Database)}}
		}
		return found, err
	}}
}

func publisherCheck(a *cli.App, pool *pgxpool.Pool, cfg *cli.Config) doctor.Check {
	return doctor.Check{Area: "publishers", Name: "alive", Remedy: "outboxctl migrate", Run: func(ctx context.Context) ([]doctor.Finding, error) {
		report, err := stats.New(pool, a.Registry).Collect(ctx, stats.Params{MaxAttempts: cfg.Publish.MaxAttempts})
		if err != nil {
			return nil, err
		}
		var found []doctor.Finding
		for _, t := range report.Topics {
			found = append(found, doctor.Finding{
				Level: doctor.Warn, Remedy: "outboxctl topic list shows what exists; publishing resumes by itself",
				Message: fmt.Sprintf("topic %s is %s at %s: %s", t.Topic, t.State, t.Publisher, t.Error),
			})
		}
		switch {
		case len(report.Publishers) > 0:
			found = append(found, doctor.Finding{Level: doctor.OK, Message: fmt.Sprintf("%d alive", len(report.Publishers))})
		case report.Backlog > 0:
			found = append(found, doctor.Finding{
				Level: doctor.Fail, Remedy: "outboxctl publish", Message: fmt.Sprintf("none is alive and %d events wait", report.Backlog),
			})
		default:
			found = append(found, doctor.Finding{Level: doctor.Warn, Remedy: "outboxctl publish", Message: "none is alive"})
		}
		return found, nil
	}}
}

func brokerCheck(a *cli.App, cfg *cli.Config) doctor.Check {
	return doctor.Check{Area: "pubsub", Name: "topics", Remedy: "check pubsub.project, pubsub.emulator and the credentials", Run: func(ctx context.Context) ([]doctor.Finding, error) {
		if cfg.PubSub.Project == "" {
			return []doctor.Finding{{Level: doctor.Warn, Remedy: "set pubsub.project", Message: "no project is configured"}}, nil
		}
		client, err := a.Broker(ctx)
		if err != nil {
			return nil, err
		}
		actions, err := client.Ensure(ctx, pubsub.EnsureParams{Plan: cli.BrokerPlan(cfg), DryRun: true})
		if err != nil && !errors.Is(err, pubsub.ErrIncomplete) {
			return nil, err
		}
		return brokerFindings(actions), nil
	}}
}

func brokerFindings(actions []pubsub.Action) []doctor.Finding {
	var found []doctor.Finding
	fine := 0
	for _, action := range actions {
		f := doctor.Finding{Level: doctor.Warn, Remedy: "outboxctl topic ensure", Message: fmt.Sprintf("%s %s is missing", action.Kind, action.Name)}
		switch action.Outcome {
		case pubsub.OutcomeExists:
			fine++
			if action.Detail == "" {
				continue
			}
			f.Message, f.Remedy = fmt.Sprintf("%s %s: %s", action.Kind, action.Name, action.Detail), "change it in the broker if that is not meant"
		case pubsub.OutcomeMissing:
			if action.Kind == pubsub.KindTopic {
				f.Level = doctor.Fail
			}
		case pubsub.OutcomeDiffers:
			f.Message, f.Remedy = fmt.Sprintf("%s %s: %s", action.Kind, action.Name, action.Detail), "name another subscription (pubsub.subscription) or delete this one"
		case pubsub.OutcomeFailed, pubsub.OutcomeCreated:
			f.Level, f.Message, f.Remedy = doctor.Fail, fmt.Sprintf("%s %s: %s", action.Kind, action.Name, action.Detail), "check the service account's permissions"
		}
		found = append(found, f)
	}
	if fine > 0 {
		found = append(found, doctor.Finding{Level: doctor.OK, Message: fmt.Sprintf("%d topics and subscriptions exist", fine)})
	}
	return found
}

func redisCheck(a *cli.App, cfg *cli.Config) doctor.Check {
	return doctor.Check{Area: "redis", Name: "keeper", Remedy: "check redis.url; consumers stop while Redis is away, publishers do not need it", Run: func(ctx context.Context) ([]doctor.Finding, error) {
		client, err := a.Redis()
		if err != nil {
			return nil, err
		}
		keeper, err := idem.New(client, idem.Config{TTL: cfg.Idempotency.TTL, Timeout: time.Second})
		if err != nil {
			return nil, err
		}
		report, err := keeper.Check(ctx)
		if err != nil {
			return nil, err
		}
		var found []doctor.Finding
		for _, w := range report.Warnings {
			found = append(found, doctor.Finding{Level: doctor.Warn, Message: w, Remedy: "CONFIG SET maxmemory-policy noeviction"})
		}
		redelivery := pubsub.Retention
		if cfg.Idempotency.TTL < redelivery {
			found = append(found, doctor.Finding{
				Level: doctor.Warn, Remedy: "raise idempotency.ttl",
				Message: fmt.Sprintf("idempotency.ttl is %s, but the broker may redeliver for %s", cfg.Idempotency.TTL, redelivery),
			})
		}
		if found == nil {
			found = append(found, doctor.Finding{Level: doctor.OK, Message: "Redis " + report.Version + " keeps the processed marks"})
		}
		return found, nil
	}}
}
