package dlq

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// FuzzPlan holds that a plan is read as it was written, and that one changed
// byte anywhere makes it unusable.
func FuzzPlan(f *testing.F) {
	f.Add("ann", "a bug in March", uint8(3), false, uint16(17), byte(1))
	f.Add("", "\"quoted\"\n", uint8(0), true, uint16(400), byte(0x20))
	f.Add("\u202e", "</script>", uint8(9), true, uint16(9999), byte(0x80))
	f.Fuzz(func(t *testing.T, author, reason string, n uint8, republish bool, at uint16, flip byte) {
		h := PlanHeader{
			Format: planFormat, Version: planVersion, ID: uuid.NewSHA1(uuid.Nil, []byte(author)).String(), Action: Replay,
			CreatedAt: time.Date(2026, 3, 4, 5, 6, 7, int(at), time.UTC), Author: strings.ToValidUTF8(author, "?"),
			Note: strings.ToValidUTF8(reason, "?"), Database: Identity{SystemIdentifier: "7", OID: 5},
		}
		if republish {
			h.Action = Republish
		}
		var file bytes.Buffer
		targets := writeFuzzPlan(t, &file, h, int(n))

		got, count, err := CheckPlan(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		require.Equal(t, h, got)
		require.EqualValues(t, n, count)
		p, err := OpenPlan(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		read, err := p.Next(context.Background(), ChunkSize)
		require.NoError(t, err)
		require.Equal(t, targets, read)

		if flip == 0 {
			return
		}
		damaged := bytes.Clone(file.Bytes())
		i := int(at) % len(damaged)
		damaged[i] ^= flip
		if strings.TrimSpace(string(damaged[i:])) == strings.TrimSpace(file.String()[i:]) {
			return // the line feed behind the end has become another space
		}
		if _, _, err := CheckPlan(bytes.NewReader(damaged)); err == nil {
			// Between the last tokens one kind of space is as good as another.
			require.Equal(t, squeeze(file.Bytes()), squeeze(damaged))
		} else {
			require.ErrorIs(t, err, ErrPlan)
		}
	})
}

func squeeze(b []byte) string { return strings.Join(strings.Fields(string(b)), " ") }

func writeFuzzPlan(t *testing.T, file *bytes.Buffer, h PlanHeader, n int) (targets []Target) {
	t.Helper()
	w, err := newPlanWriter(file, h)
	require.NoError(t, err)
	for i := range n {
		sum := sha256.Sum256([]byte{byte(i)})
		target := Target{ID: uuid.NewSHA1(uuid.Max, []byte{byte(i)}).String(), Hash: hex.EncodeToString(sum[:])}
		item := PlanItem{ID: target.ID, PayloadSHA256: target.Hash}
		if h.Action == Republish {
			target.EventID, target.At = target.ID, h.CreatedAt.Add(time.Duration(i))
			item.PublishedAt = &target.At
		} else {
			target.EventID = uuid.NewSHA1(uuid.Nil, []byte{byte(i)}).String()
			item.EventID = target.EventID
		}
		targets = append(targets, target)
		require.NoError(t, w.add(item))
	}
	require.NoError(t, w.finish())
	return targets
}

// FuzzPlanFile holds that no file panics the reader, and that what is not a
// plan is called that.
func FuzzPlanFile(f *testing.F) {
	f.Add([]byte(`{"format": "outboxctl/plan", "version": 1, "items": [`))
	f.Add([]byte(`{"items": [], "count": 0}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, _, err := CheckPlan(bytes.NewReader(file)); err != nil {
			require.ErrorIs(t, err, ErrPlan)
		}
	})
}

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
		c, err := filter.compile()
		if err != nil {
			require.NotContains(t, []string{"", StateOpen, StateReplayed, StateDiscarded}, state)
			return
		}
		where, args := c.where()
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
