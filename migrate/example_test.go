package migrate_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/migrate"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

// A program creates or updates its tables at start; any number of instances may do so at once.
func ExampleUp() {
	db, drop := outboxtest.Example(outboxtest.EmptyDB) // yours: pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	defer drop()
	ctx := context.Background()
	found, err := migrate.Survey(ctx, db.Pool, migrate.Options{Types: migrate.Text})
	if err != nil {
		panic(err)
	}
	fmt.Println("exists:", found.Exists, "blocked:", len(found.Blocked))
	done, err := migrate.Up(ctx, db.Pool, migrate.Options{Types: migrate.Text})
	if err != nil {
		panic(err)
	}
	fmt.Println("from version", done.From, "to the newest:", done.To == found.Binary)
	again, err := migrate.Up(ctx, db.Pool, migrate.Options{})
	fmt.Println("again:", len(again.Ran), err)
	// Output:
	// exists: false blocked: 0
	// from version 0 to the newest: true
	// again: 0 <nil>
}
