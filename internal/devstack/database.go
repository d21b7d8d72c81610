package devstack

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CreateDatabase creates a database on the server, unless it is there, and closes its schema to all
// others: up to PostgreSQL 14 every role may create in it. name must be a plain word.
func (p *Postgres) CreateDatabase(ctx context.Context, name string) error {
	err := onConn(ctx, p.URL("postgres"), func(conn *pgx.Conn) error {
		var exists bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)",
			name).Scan(&exists)
		if err == nil && !exists {
			_, err = conn.Exec(ctx, "CREATE DATABASE "+name)
		}
		return err
	})
	if err == nil {
		err = onConn(ctx, p.URL(name), func(conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// onConn runs do on a connection of its own.
func onConn(ctx context.Context, url string, do func(*pgx.Conn) error) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	return do(conn)
}
