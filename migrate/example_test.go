package migrate_test

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outboxctl/outboxctl/migrate"
)

// A program creates or updates its tables at start; any number of instances may do so at once.
func ExampleUp() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		panic(err)
	}
	defer pool.Close()
	done, err := migrate.Up(ctx, pool, migrate.Options{Types: migrate.Text})
	if err != nil {
		panic(err)
	}
	fmt.Printf("version %d, was %d\n", done.To, done.From)
}
