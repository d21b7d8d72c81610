package dlq

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzFilter holds that nothing a person types reaches the text of a
// statement: every value is an argument, and every argument is used.
func FuzzFilter(f *testing.F) {
	f.Add("open", "order_created", "", "", "100%_*", "018f3f6e-0000-7000-8000-00000000000a", int64(0))
	f.Add("", "x'; DROP TABLE outbox_dlq; --", "$1", "a,b", `\`, "", int64(1))
	f.Add("discarded", "", "domain", "default", "*", "", int64(-1))
	shape := regexp.MustCompile(`^(true|(state = '[a-z]+'|[a-z_]+ (=|>=|<|ILIKE) (ANY \()?([a-z_]+\()?\$\d+(::[a-z_]+(\[\])?)?\)?\)?)( AND (state = '[a-z]+'|[a-z_]+ (=|>=|<|ILIKE) (ANY \()?([a-z_]+\()?\$\d+(::[a-z_]+(\[\])?)?\)?\)?))*)$`)
	f.Fuzz(func(t *testing.T, state, eventType, topic, namespaces, errorLike, tenant string, since int64) {
		filter := Filter{State: state, ErrorLike: errorLike, AggregateType: topic}
		for value, field := range map[string]*[]string{eventType: &filter.Types, topic: &filter.Topics, tenant: &filter.Tenants} {
			if value != "" {
				*field = []string{value}
			}
		}
		if namespaces != "" {
			filter.Namespaces = strings.Split(namespaces, ",")
		}
		if since != 0 {
			filter.Since, filter.Until = time.Unix(since, 0), time.Unix(since, 1)
		}
		w, err := compile(filter)
		if err != nil {
			require.NotContains(t, []string{"", StateOpen, StateReplayed, StateDiscarded}, state)
			return
		}
		where := where(filter, &w)
		args := w.Args
		require.Regexp(t, shape, where)
		for i := range args {
			require.Len(t, regexp.MustCompile(fmt.Sprintf(`\$%d\b`, i+1)).FindAllString(where, -1), 1, where)
		}
		require.Equal(t, len(args), strings.Count(where, "$"))
		require.Equal(t, len(args) > 0, filter.Narrows())
	})
}

// FuzzLikePattern holds that a text is found in itself, whatever ILIKE would
// take for a wildcard, and that only an asterisk stands for something else.
func FuzzLikePattern(f *testing.F) {
	for _, text := range []string{"100%", "a_b", `c:\x`, "*", "a*b", "", `\*`} {
		f.Add(text, "a")
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		if !utf8.ValidString(text) || !utf8.ValidString(other) {
			return
		}
		pattern := likePattern(text)
		require.True(t, like(pattern, other+text+other), "%q does not find %q", pattern, text)
		if !strings.Contains(text, "*") {
			require.Equal(t, strings.Contains(other, text), like(pattern, other), "%q in %q", pattern, other)
		}
	})
}

// like is SQL's LIKE, as a regular expression.
func like(pattern, text string) bool {
	var b strings.Builder
	escaped := false
	for _, r := range pattern {
		switch {
		case escaped:
			b.WriteString(regexp.QuoteMeta(string(r)))
			escaped = false
		case r == '\\':
			escaped = true
		case r == '%':
			b.WriteString(".*")
		case r == '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return regexp.MustCompile("(?s)^" + b.String() + "$").MatchString(text)
}
