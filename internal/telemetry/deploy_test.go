package telemetry_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/outboxctl/outboxctl/consume"
	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/consumer"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/telemetry"
)

// noSource is one that nothing is read from.
type noSource struct{ broker.Source }

func (noSource) About() broker.About { return broker.About{} }

// exposed is every series name that a publisher or a consumer can expose.
func exposed(t *testing.T) map[string]bool {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	telemetry.NewMetrics(r, []string{"domain"})
	telemetry.RegisterProcess(r, "v1", "c", "go1")
	telemetry.NewBacklog(r, func(context.Context) (stats.Sample, error) { return stats.Sample{}, nil },
		func() telemetry.Current { return telemetry.Current{} }, func(string, error) {})
	guard, err := consume.New(redis.NewClient(&redis.Options{}), "mailer", consume.Options{})
	require.NoError(t, err)
	consumer.New(noSource{}, guard, consumer.Config{Metrics: r})
	ch := make(chan *prometheus.Desc, 1000)
	r.Describe(ch)
	close(ch)
	names := map[string]bool{}
	fqName := regexp.MustCompile(`fqName: "([^"]+)"`)
	for d := range ch {
		name := fqName.FindStringSubmatch(d.String())[1]
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			names[name+suffix] = true
		}
	}
	gathered, err := r.Gather()
	require.NoError(t, err)
	for _, family := range gathered {
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				names[label.GetName()+"="+label.GetValue()] = true
			}
		}
	}
	return names
}

// requireKnown holds every series that a query names, and every outcome, against those that exist.
func requireKnown(t *testing.T, query string, names map[string]bool) {
	t.Helper()
	found := regexp.MustCompile(`\b(?:outbox|process|go)_[a-z_]+`).FindAllString(query, -1)
	require.NotEmpty(t, found, "no series in %q", query)
	for _, name := range found {
		require.True(t, names[name], "%s in %q is not exposed", name, query)
	}
	for _, asked := range regexp.MustCompile(`\boutcome=~?"([^"]+)"`).FindAllStringSubmatch(query, -1) {
		for outcome := range strings.SplitSeq(asked[1], "|") {
			require.True(t, names["outcome="+outcome], "there is no outcome %s, which %q asks for", outcome, query)
		}
	}
}

func TestAlertsAskForSeriesThatExist(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.Unmarshal(raw, &file))
	names := exposed(t)
	runbook, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	var anchors []string
	for _, heading := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(runbook), -1) {
		anchors = append(anchors, strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-"))
	}
	require.Len(t, file.Groups, 1)
	require.Len(t, file.Groups[0].Rules, 13)
	for _, rule := range file.Groups[0].Rules {
		requireKnown(t, rule.Expr, names)
		require.NotEmpty(t, rule.Annotations["summary"], rule.Alert)
		require.NotEmpty(t, rule.Annotations["description"], rule.Alert)
		_, anchor, found := strings.Cut(rule.Annotations["runbook_url"], "/docs/operations.md#")
		require.True(t, found, rule.Alert)
		require.Contains(t, anchors, anchor, rule.Alert)
	}
}

func TestDashboardAsksForSeriesThatExist(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../deploy/grafana/outboxctl.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	require.NoError(t, json.Unmarshal(raw, &dashboard))
	require.NotEmpty(t, dashboard.Panels)
	names := exposed(t)
	for _, panel := range dashboard.Panels {
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			requireKnown(t, target.Expr, names)
			require.NotRegexp(t, `rate\([^[]*\[\d`, target.Expr, "a rate over a fixed time is empty where scrapes are rarer")
			if regexp.MustCompile(`\b(process|go)_`).MatchString(target.Expr) {
				require.Regexp(t, `and on \(job, instance\) outbox_`, target.Expr, "every process in Prometheus has this series")
			}
		}
	}
}

// Every outbox_ name in the documents is a series that exists or something of the schema, and every series is documented. Those
// of the web page are compared in package ui.
func TestDocumentsNameEverySeries(t *testing.T) {
	t.Parallel()
	var schema, documents strings.Builder
	read := func(to *strings.Builder, pattern string) {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			to.Write(text)
		}
	}
	read(&schema, "../../migrations/*.sql")
	for _, pattern := range []string{"../../README.md", "../../docs/*.md", "../../docs/*/*.md"} {
		read(&documents, pattern)
	}
	names := exposed(t)
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`\boutbox_[a-z_]+`).FindAllString(documents.String(), -1) {
		named[name] = true
		if !names[name] && !strings.HasPrefix(name, "outbox_ui_") {
			require.True(t, regexp.MustCompile(`\b`+name+`\b`).MatchString(schema.String()), "%s is neither exposed nor in the schema", name)
		}
	}
	for name := range names {
		if strings.HasPrefix(name, "outbox_") && !regexp.MustCompile(`_(bucket|sum|count)$`).MatchString(name) {
			require.Contains(t, named, name, "a series that no document names")
		}
	}
}
