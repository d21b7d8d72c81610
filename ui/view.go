package ui

import (
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/safetext"
	"github.com/outboxctl/outboxctl/internal/words"
)

//go:embed templates/*.html assets/*
var files embed.FS

// view is a page, and what all of them show.
type view struct {
	Title string
	Menu  []entry
	// Command is the command line that shows the same.
	Command string
	Live    bool // it is asked for again while a viewer looks
	Data    any
	// Now is the database's clock when the page began to read.
	Now time.Time

	Label, Color, Place, Version, Who, Query string
	Known                                    bool // the viewer was identified
	Snapshot                                 snapshot
	// OwnRights: it is read with the rights of its login. NoRights is the role that has none here.
	OwnRights bool
	NoRights  string
	// Notice is why the figures are old or missing.
	Notice *trouble
	Every  int64 // milliseconds after which an open page asks again
	// Changes: something can be changed at all. MayChange: the viewer may.
	Changes, MayChange bool
	// MayReveal and MayEdit: what an event carries. Leaves: the viewer can sign out.
	MayReveal, MayEdit, Leaves bool

	template string
	redirect string
}

func parseTemplates(base, traceURL string, a assets) (map[string]*template.Template, error) {
	names, err := fs.Glob(files, "templates/page_*.html")
	if err != nil {
		return nil, fmt.Errorf("list templates: %w", err)
	}
	all := make(map[string]*template.Template, len(names))
	for _, name := range names {
		t, err := template.New("").Funcs(templateFuncs(base, traceURL, a)).ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/change.html", name)
		if err != nil {
			return nil, fmt.Errorf("read templates: %w", err)
		}
		all[strings.TrimSuffix(strings.TrimPrefix(path.Base(name), "page_"), ".html")] = t
	}
	return all, nil
}

func templateFuncs(base, traceURL string, a assets) template.FuncMap {
	return template.FuncMap{
		"url":     func(to string) string { return base + to },
		"link":    func(to string, pairs ...any) string { return base + to + query(pairs...) },
		"trace":   func(id string) string { return strings.ReplaceAll(traceURL, "{trace_id}", id) },
		"blocks":  blocks,
		"asset":   func(name string) string { return base + "/assets/" + a.named[name] },
		"line":    func(v any) string { return safetext.Line(textOf(v)) },
		"lines":   func(v any) string { return safetext.Block(textOf(v)) },
		"cut":     func(n int, v any) string { return safetext.Cut(safetext.Line(textOf(v)), n) },
		"head":    func(n int, v any) string { return safetext.Cut(safetext.Line(safetext.FirstLine(textOf(v))), n) },
		"latency": latencyWords,
		"count":   words.Count,
		"counted": words.Counted,
		"seconds": words.Seconds,
		"rate":    func(perSecond float64) string { return humanize.CommafWithDigits(perSecond, 1) + "/s" },
		"share":   share,
		"width":   func(n, of int64) string { return fmt.Sprintf("%.1f", 100*float64(n)/float64(max(of, 1))) },
		"utc":     func(v any) string { return timeOf(v).UTC().Format(time.RFC3339) },
		"clock":   func(v any) string { return timeOf(v).UTC().Format(time.TimeOnly) },
		"ago":     ago,
		"age":     func(now time.Time, v any) int64 { return int64(now.Sub(timeOf(v)).Seconds()) },
		"list":    func(one *outbox.Event) []outbox.Event { return []outbox.Event{*one} },
		"size":    func(rows []outbox.Event) int64 { return int64(len(rows)) },
		"set":     func(v any) bool { return !timeOf(v).IsZero() },
		"short":   short,
		"explain": dlq.Explain,
		"title":   func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
		"verb":    dlq.Action.Verb,
		"noun":    dlq.Action.Noun,
		"ranked":  ranked,
		"instant": func(v any) string { return timeOf(v).UTC().Format(time.RFC3339Nano) },
		"pairs":   pairsOf,
		"dict": func(pairs ...any) map[string]any {
			m := map[string]any{}
			for i := 0; i+1 < len(pairs); i += 2 {
				m[fmt.Sprint(pairs[i])] = pairs[i+1]
			}
			return m
		},
	}
}

// blocks is how many events a dead one keeps back, counted up to a bound.
func blocks(n int64) string {
	if n > dlq.BlocksBound {
		return "more than " + words.Counted(dlq.BlocksBound, "event")
	}
	return words.Counted(n, "event")
}

// pairsOf is a JSON object as words.
func pairsOf(doc json.RawMessage) string {
	var object map[string]json.RawMessage
	if json.Unmarshal(doc, &object) != nil {
		return string(doc)
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var one string
		var several []string
		value := object[name]
		if json.Unmarshal(value, &one) != nil {
			if one = string(value); json.Unmarshal(value, &several) == nil {
				one = strings.Join(several, ", ")
			}
		}
		said = append(said, name+" "+one)
	}
	return strings.Join(said, " · ")
}

func query(pairs ...any) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := textOf(pairs[i+1]); value != "" {
			q.Add(textOf(pairs[i]), value)
		}
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func textOf(v any) string {
	if p, ok := v.(*string); ok {
		return *cmp.Or(p, new(string))
	}
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func timeOf(v any) time.Time {
	if p, ok := v.(*time.Time); ok {
		return *cmp.Or(p, &time.Time{})
	}
	t, _ := v.(time.Time)
	return t
}

// ago is how long before now, the database's time, something was; or how long after.
func ago(now time.Time, v any) string {
	t := timeOf(v)
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < 0:
		return "in " + span(-d)
	case d < time.Second:
		return "now"
	default:
		return span(d) + " ago"
	}
}

// span is a length of time in its largest unit.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

// short is an id as a person compares it: its end is random, it begins with the time.
func short(v any) string {
	id := textOf(v)
	if len(id) != 36 {
		return safetext.Line(id)
	}
	return id[:8] + "…" + id[28:]
}

func share(n, of int64) string {
	p := 100 * float64(n) / float64(max(of, 1))
	if p > 0 && p < 1 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", p)
}
