package registry_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/internal/registry"
)

func record(t *testing.T, pool *pgxpool.Pool, actor string, documents ...catalogue.Document) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.Build(documents...)
	require.NoError(t, err)
	if actor != "" {
		_, err = c.Record(t.Context(), pool, catalogue.RecordParams{Actor: actor})
		require.NoError(t, err)
	}
	return c
}

func document(namespace string, types ...catalogue.Type) catalogue.Document {
	for i := range types {
		types[i].Topic, types[i].Aggregate = "orders", "order"
	}
	return catalogue.Document{Name: "shop", Namespace: namespace, Topics: map[string]string{"orders": "shop-orders"}, Types: types}
}

// A publisher leaves a type to others where it lacks it, and nowhere else.
func TestTypesAreLeftInTheirNamespace(t *testing.T) {
	t.Parallel()
	pool := outboxtest.ShapedDB(t, outboxtest.Shapes()[1]).Pool
	record(t, pool, "op", document("*", catalogue.Type{Name: "a"}, catalogue.Type{Name: "b"}, catalogue.Type{Name: "c"}),
		document("uploads", catalogue.Type{Name: "a", Schema: catalogue.Any}, catalogue.Type{Name: "d"}))
	own := record(t, pool, "", document("*", catalogue.Type{Name: "a"}, catalogue.Type{Name: "b", Schema: catalogue.Any}))
	live, err := registry.NewLive(t.Context(), pool, &registry.Registry{Catalogue: own, Source: "shop.yaml"})
	require.NoError(t, err)
	b, _ := own.Find("", "b")
	a, _ := own.Find("", "a")
	report := live.Report()
	require.Equal(t, dispatch.TypesIn{"*": {"c"}, "uploads": {"d"}}, report.Unknown)
	require.Equal(t, map[string]map[string]string{"*": {"b": b.Digest()}, "uploads": {"a": a.Digest()}}, report.Other)
	require.True(t, live.Judges("default", "a"))
	require.False(t, live.Judges("uploads", "a"))
	live.StandDown("uploads", "a")
	live.StandDown("uploads", "a")
	require.Equal(t, dispatch.TypesIn{"uploads": {"a"}}, live.Report().StoodDown)
	require.Equal(t, map[string][]string{"*": {"c"}, "uploads": {"d", "a"}}, live.Except())
	require.Equal(t, dispatch.TypesIn{"*": {"c"}, "uploads": {"d"}}, live.Report().Unknown, "what was returned is the caller's")

	record(t, pool, "op", document("uploads", catalogue.Type{Name: "a"}))
	require.NoError(t, live.Refresh(t.Context()))
	require.Equal(t, map[string][]string{"*": {"c"}}, live.Except(), "another revision is another chance")
	live.Follow()
	require.Empty(t, live.Except())
	require.Empty(t, live.Report().Other)
}

// A type keeps who applied it for as long as it stays what it is.
func TestAppliedIsOfTheTypeAsItIs(t *testing.T) {
	t.Parallel()
	pool := outboxtest.ShapedDB(t, outboxtest.Shapes()[1]).Pool
	applied := func(name string) (string, time.Time) {
		r, err := registry.Recorded(t.Context(), pool)
		require.NoError(t, err)
		found, ok := r.Find("", name)
		require.True(t, ok)
		return found.Applied()
	}
	record(t, pool, "ann", document("*", catalogue.Type{Name: "a"}, catalogue.Type{Name: "b"}))
	by, first := applied("a")
	require.Equal(t, "ann", by)
	require.False(t, first.IsZero())
	record(t, pool, "bob", document("*", catalogue.Type{Name: "a", Description: "says nothing"}, catalogue.Type{Name: "b", Schema: catalogue.Any}))
	by, at := applied("a")
	require.Equal(t, "ann", by)
	require.Equal(t, first, at)
	by, at = applied("b")
	require.Equal(t, "bob", by)
	require.True(t, at.After(first))
}

// What the columns cannot hold is refused before anything is changed.
func TestACatalogueHasToFitTheColumns(t *testing.T) {
	t.Parallel()
	none := catalogue.Document{Name: "shop", Topics: map[string]string{"orders": "o"}, Types: []catalogue.Type{{Name: "usage.done", Topic: "orders", Aggregate: catalogue.None}}}
	for _, shape := range outboxtest.Shapes() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			pool := outboxtest.ShapedDB(t, shape).Pool
			c, err := catalogue.Build(none)
			require.NoError(t, err)
			_, err = c.Record(t.Context(), pool, catalogue.RecordParams{Actor: "tests"})
			if shape.Name == "text and text" || shape.Name == "varchar and varchar" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, catalogue.ErrColumns)
			require.ErrorContains(t, err, "type usage.done says aggregate: none")
			var values int
			require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_enum WHERE enumlabel IN ('usage.done', '')`).Scan(&values))
			require.Zero(t, values)
		})
	}
}
