package migrate_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// plausible are the types that an argument of ours has, or could be taken for.
var plausible = strings.Fields(`text varchar name bool int4 int8 numeric float8 uuid jsonb timestamptz timestamp interval
	_text _uuid _timestamptz event_type_enum aggregate_type_enum`)

var (
	comments  = regexp.MustCompile(`--[^\n]*`)
	literals  = regexp.MustCompile(`'(?:[^']|'')*'`)
	names     = regexp.MustCompile(`([a-z_][a-z_0-9]*)\s*\(`)
	operators = regexp.MustCompile(`[-+*/<>=~!@#%^&|?]+`)
)

// plant creates, as a stranger, functions for every name that ours call and operators for every one they use, with all
// plausible types of arguments. Each raises hijacked when it is called.
func plant(t *testing.T, pool *pgxpool.Pool, stranger string) {
	t.Helper()
	// What is called without being named: AT TIME ZONE, IN, CASE, DISTINCT, ORDER BY.
	called, used := map[string]bool{"timezone": true}, map[string]bool{"=": true, "<>": true, "<": true, ">": true}
	for _, source := range queryAll(t, pool, `SELECT proname || '(' || prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace`) {
		source = literals.ReplaceAllString(comments.ReplaceAllString(source, ""), "''")
		for _, m := range names.FindAllStringSubmatch(source, -1) {
			called[m[1]] = true
		}
		for _, operator := range operators.FindAllString(source, -1) {
			used[operator] = operator != "=>" // which names an argument
		}
	}
	var script strings.Builder
	script.WriteString("SET ROLE " + stranger + ";\n")
	functions := plantedFunctions(t, pool, called)
	for _, f := range functions {
		writePlanted(&script, f.name, f.types, f.returns)
	}
	planted := 0
	for _, left := range plausible {
		for _, right := range plausible {
			for name, returns := range map[string]string{"hj_test": "bool", "hj_value": left} {
				writePlanted(&script, name, []string{left, right}, returns)
			}
			for operator, is := range used {
				if !is {
					continue
				}
				function := "hj_value"
				if strings.ContainsAny(operator, "<=>~") && !strings.HasPrefix(operator, "-") && !strings.HasPrefix(operator, "#") {
					function = "hj_test"
				}
				fmt.Fprintf(&script, "CREATE OPERATOR %s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = %s);\n", operator, left, right, function)
				planted++
			}
		}
	}
	script.WriteString("RESET ROLE;\n")
	_, err := pool.Exec(t.Context(), script.String())
	require.NoError(t, err)
	t.Logf("planted %d functions and %d operators", len(functions), planted)
	require.Greater(t, len(functions), 5000)
	require.Greater(t, planted, 5000)
}

func writePlanted(script *strings.Builder, name string, types []string, returns string) {
	fmt.Fprintf(script, "CREATE FUNCTION %q(%s) RETURNS %s LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION '%s' USING ERRCODE = '%s'; END$$;\n",
		name, strings.Join(types, ", "), returns, name+" of "+strings.Join(types, ", "), hijacked)
}

// A signature is a function as the catalogue has it; types that stand for any are empty.
type signature struct {
	Name     string
	Types    []string
	Returns  string
	Variadic bool
}

type plantedFunction struct {
	name    string
	types   []string
	returns string
}

// plantedFunctions varies what the catalogue and our schema have under the names that are called.
func plantedFunctions(t *testing.T, pool *pgxpool.Pool, called map[string]bool) []plantedFunction {
	t.Helper()
	rows, err := pool.Query(t.Context(), `
SELECT p.proname::text,
       ARRAY(SELECT CASE WHEN t.typtype = 'p' THEN '' ELSE quote_ident(t.typname) END
               FROM unnest(p.proargtypes) WITH ORDINALITY AS a(id, ord) JOIN pg_type AS t ON t.oid = a.id ORDER BY a.ord),
       CASE WHEN r.typtype = 'p' THEN 'text' ELSE quote_ident(r.typname) END,
       p.provariadic <> 0
  FROM pg_proc AS p JOIN pg_type AS r ON r.oid = p.prorettype
 WHERE p.pronamespace IN ('pg_catalog'::regnamespace, 'public'::regnamespace)`)
	require.NoError(t, err)
	signatures, err := pgx.CollectRows(rows, pgx.RowToStructByPos[signature])
	require.NoError(t, err)
	taken, out := map[string]bool{}, []plantedFunction{}
	for _, s := range signatures {
		taken[s.Name+" "+strings.Join(s.Types, ", ")] = true // of ours; those of the catalogue are in another schema
	}
	for _, s := range signatures {
		if !called[s.Name] {
			continue
		}
		for _, types := range s.variants() {
			key := s.Name + " " + strings.Join(types, ", ")
			if !taken[key] {
				taken[key] = true
				out = append(out, plantedFunction{s.Name, types, s.Returns})
			}
		}
	}
	return out
}

// variants are the lists of types that might fit a call better than the signature does. One argument that fits better is
// enough, so those of a long list are varied one at a time.
func (s signature) variants() (out [][]string) {
	switch n := len(s.Types); {
	case s.Variadic:
		for n := 1; n <= 20; n++ {
			for _, free := range plausible {
				same, pairs := make([]string, n), make([]string, n)
				for i := range n {
					same[i], pairs[i] = free, []string{"text", free}[i%2]
				}
				out = append(out, same, pairs)
			}
		}
	case n == 0:
	case n == 1:
		for _, a := range plausible {
			out = append(out, []string{a})
		}
	case n == 2:
		for _, a := range plausible {
			for _, b := range plausible {
				out = append(out, []string{a, b})
			}
		}
	default:
		for _, free := range plausible {
			base := slices.Clone(s.Types)
			for i := range base {
				if base[i] == "" {
					base[i] = free
				}
			}
			out = append(out, base)
			for i := range base {
				one := slices.Clone(base)
				one[i] = free
				out = append(out, one)
			}
		}
	}
	return out
}
