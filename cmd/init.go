package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/words"
)

// The files that init writes.
const (
	initConfig    = "outboxctl.yaml"
	initCatalogue = "catalogue.yaml"
)

type initOptions struct {
	app *cli.App

	name, address string
}

func newInitCmd(app *cli.App) *cobra.Command {
	opts := &initOptions{app: app}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write a configuration and a first catalogue into this folder",
		Long: `Write ` + initConfig + ` and ` + initCatalogue + ` into this folder: where the database and the destination are, and a first event type
to change. On a terminal it asks for what no flag says; --database-url and --broker say where. Files that exist are left alone. A database that the environment names
(OUTBOXCTL_DATABASE_URL, DATABASE_URL) stays there, and so does its password.`,
		Example: "  outboxctl init\n  outboxctl init --name shop --database-url postgres://localhost/shop --broker nats --address nats://localhost:4222",
		RunE:    func(cmd *cobra.Command, _ []string) error { return runInit(cmd.Context(), opts) },
	}
	cmd.Flags().StringVar(&opts.name, "name", "", "`name` of your system, with which the names of its topics begin (default the folder's)")
	cmd.Flags().StringVar(&opts.address, "address", "", "where the destination is: the project, `URL`, servers or command")
	return cmd
}

func runInit(ctx context.Context, opts *initOptions) error {
	for _, file := range []string{initConfig, initCatalogue} {
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			return fault.Hint(fault.Preconditionf("%s exists already, and is left alone", file), "go to another folder, or change it by hand")
		}
	}
	opts.app.LeaveContext()
	cfg, err := opts.app.Config()
	if err != nil {
		return err
	}
	database, err := opts.database(ctx, cfg)
	if err != nil {
		return err
	}
	kind, err := opts.destination(ctx, cfg)
	if err != nil {
		return err
	}
	if opts.name, err = opts.app.Ask(ctx, cli.Question{
		Text: "name of your system", Flag: "name", Given: opts.name, Default: folderName(), Check: func(name string) error {
			if !regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`).MatchString(name) {
				return fmt.Errorf("%q is not up to 40 small letters, digits and -", name)
			}
			return kind.CheckName(broker.KindTopic, name+"-orders")
		},
	}); err != nil {
		return err
	}
	if err := writeNew(initConfig, opts.settings(database, kind), 0o600); err != nil {
		return err
	}
	if err := writeNew(initCatalogue, fmt.Sprintf(initTypes, opts.name), 0o644); err != nil {
		return err
	}
	last := "outboxctl topic ensure"
	if kind.Subscription == "" {
		last = "outboxctl publish" // it has no topics to create
	}
	fmt.Fprintf(opts.app.Err, "wrote %s and %s; next:\n  outboxctl migrate --types text\n  outboxctl registry apply %[2]s\n  %[3]s\n",
		initConfig, initCatalogue, last)
	return nil
}

// database is the connection string to write, or nothing where the environment has one.
func (o *initOptions) database(ctx context.Context, cfg *cli.Config) (string, error) {
	given := ""
	switch origin := cfg.Origin("database.url"); {
	case strings.HasPrefix(origin, "flag "):
		given = cfg.Database.URL
	case strings.HasPrefix(origin, "env "):
		return "", nil
	}
	return o.app.Ask(ctx, cli.Question{Text: "PostgreSQL connection string (postgres://user:password@host/database)", Flag: "database-url", Given: given, Check: cli.IsDatabaseURL})
}

// destination is the kind of destination; address becomes where it is.
func (o *initOptions) destination(ctx context.Context, cfg *cli.Config) (broker.Kind, error) {
	given := cfg.Broker
	if cfg.Origin("broker") == cli.OriginDefault {
		given = ""
	}
	name, err := o.app.Ask(ctx, cli.Question{
		Text: "destination (" + strings.Join(cli.BrokerNames(), ", ") + ")", Flag: "broker", Given: given, Default: cfg.Broker,
		Check: func(name string) error { return words.OneOf("destination", name, cli.BrokerNames()) },
	})
	if err != nil {
		return broker.Kind{}, err
	}
	cfg.Broker = name
	kind := cfg.BrokerKind()
	at := kind.Settings[0]
	o.address, err = o.app.Ask(ctx, cli.Question{Text: at.Name + ": " + at.Help, Flag: "address", Given: o.address, Default: at.Default, Check: at.Validate})
	return kind, err
}

// folderName is what a system is called whose folder says nothing else.
func folderName() string {
	folder, err := os.Getwd()
	if err != nil {
		return "shop"
	}
	name := regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(filepath.Base(folder)), "-")
	name = strings.TrimLeft(name, "-0123456789")
	return cmp.Or(strings.Trim(name[:min(len(name), 40)], "-"), "shop")
}

// writeNew writes a file that must not exist.
func writeNew(name, text string, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fault.As(fault.Precondition, fault.File(name, err))
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return fault.As(fault.Precondition, fault.File(name, err))
	}
	return nil
}

func (o *initOptions) settings(database string, kind broker.Kind) string {
	url := "  # The environment names it: OUTBOXCTL_DATABASE_URL or DATABASE_URL.\n  # url: postgres://user@host:5432/database"
	if database != "" {
		url = fmt.Sprintf("  url: %q", database)
	}
	_, key, _ := strings.Cut(kind.Settings[0].Name, ".")
	return fmt.Sprintf(`# Settings of outboxctl. Flags and the environment (OUTBOXCTL_…) come before this file; outboxctl config view
# shows each value and where it is from, and docs/configuration.md lists all of them.
database:
%s

# Where events go; see docs/destinations.
broker: %s
%s:
  %s: %q

# Only consumers that keep their marks in Redis need it.
# redis:
#   url: redis://127.0.0.1:6379/0

# publish:
#   max_attempts: 10   # failed deliveries after which an event is dead
`, url, kind.Name, kind.Name, key, o.address)
}

// initTypes is a catalogue with one type, to be changed.
const initTypes = `# Event types; docs/catalogue.md says what else a type can have.
outbox: 1
name: %[1]s
topics: {orders: %[1]s-orders}   # logical name: name at the destination
types:
  order.placed:
    description: An order was placed.
    topic: orders
    aggregate: order
    schema:
      type: object
      required: [orderId, totalCents]
      properties:
        orderId: {type: string}
        totalCents: {type: integer, minimum: 0}
`
