package registry_test

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/migrations"
)

func TestMain(m *testing.M) { outboxtest.Main(m) }

// The enum values in the migrations' text and the catalogue are the same set. The
// text is read, not the database, so that a value added by a migration that has not
// run yet counts too.
func TestEnumsOfTheMigrationsAreTheCatalogue(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, registry.New().EventTypes(), enumInMigrations(t, "event_type_enum"))
	require.ElementsMatch(t, packfinderz.AggregateTypes(), enumInMigrations(t, "aggregate_type_enum"))
}

func enumInMigrations(t *testing.T, name string) []string {
	t.Helper()
	created := regexp.MustCompile(`(?s)CREATE TYPE ` + name + ` AS ENUM \((.*?)\)`)
	added := regexp.MustCompile(`ALTER TYPE ` + name + ` ADD VALUE (?:IF NOT EXISTS )?'([a-z_]+)'`)
	value := regexp.MustCompile(`'([a-z_]+)'`)
	var values []string
	require.NoError(t, fs.WalkDir(migrations.FS, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".sql") {
			return err
		}
		text, err := fs.ReadFile(migrations.FS, path)
		require.NoError(t, err)
		up, _, _ := strings.Cut(string(text), "-- +goose Down")
		for _, list := range created.FindAllStringSubmatch(up, -1) {
			for _, v := range value.FindAllStringSubmatch(list[1], -1) {
				values = append(values, v[1])
			}
		}
		for _, v := range added.FindAllStringSubmatch(up, -1) {
			values = append(values, v[1])
		}
		return nil
	}))
	require.NotEmpty(t, values, "enum %s in the migrations", name)
	return values
}

// The database of today has the same values, and its emit functions expect the same
// aggregate for each type.
func TestEnumsOfTheDatabaseAreTheCatalogue(t *testing.T) {
	t.Parallel()
	db := outboxtest.DB(t)
	for query, want := range map[string][]string{
		`SELECT unnest(enum_range(NULL::event_type_enum))::text`:     registry.New().EventTypes(),
		`SELECT unnest(enum_range(NULL::aggregate_type_enum))::text`: packfinderz.AggregateTypes(),
	} {
		rows, err := db.Pool.Query(t.Context(), query)
		require.NoError(t, err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		require.ElementsMatch(t, want, got)
	}
	for _, e := range (packfinderz.Catalogue{}).Types() {
		var aggregate string
		require.NoError(t, db.Pool.QueryRow(t.Context(),
			`SELECT outbox_packfinderz_aggregate($1)`, e.Name).Scan(&aggregate))
		require.Equal(t, e.Aggregate, aggregate, e.Name)
	}
}
