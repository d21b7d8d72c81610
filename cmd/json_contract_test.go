package cmd

import (
	"encoding"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/broker"
	"github.com/outboxctl/outboxctl/internal/cleanup"
	"github.com/outboxctl/outboxctl/internal/cli"
	"github.com/outboxctl/outboxctl/internal/consumers"
	"github.com/outboxctl/outboxctl/internal/devstate"
	"github.com/outboxctl/outboxctl/internal/dispatch"
	"github.com/outboxctl/outboxctl/internal/dlq"
	"github.com/outboxctl/outboxctl/internal/doctor"
	"github.com/outboxctl/outboxctl/internal/idem"
	"github.com/outboxctl/outboxctl/internal/migrate"
	"github.com/outboxctl/outboxctl/internal/outbox"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/stats"
	"github.com/outboxctl/outboxctl/internal/why"
	"github.com/outboxctl/outboxctl/ui"
)

// jsonObjects is what each command encodes with -o json.
func jsonObjects() map[string][]any {
	return map[string][]any{
		"audit":             {dlq.AuditRun{}},
		"audit show":        {dlq.AuditRunResult{}},
		"audit undo":        {dlq.Outcome{}, outbox.PauseResult{}},
		"cleanup":           {cleanup.Result{}, cleanup.Plan{}},
		"config contexts":   {contextEntry{}},
		"config view":       {ui.Setting{}},
		"dev":               {devstate.Info{}},
		"dlq discard":       {dlq.Outcome{}},
		"dlq edit":          {dlq.EditResult{}},
		"dlq export":        {dlq.Export{}},
		"dlq list":          {dlq.Entry{}, dlq.Group{}},
		"dlq replay":        {dlq.Outcome{}},
		"dlq restore":       {dlq.Outcome{}},
		"dlq show":          {why.DeadLetterDetail{}},
		"doctor":            {doctor.Finding{}},
		"emit":              {outbox.Emitted{}},
		"event list":        {outbox.Event{}},
		"event tail":        {outbox.Event{}},
		"erase":             {dlq.Outcome{}},
		"event republish":   {dlq.Outcome{}},
		"event retry":       {dlq.Outcome{}},
		"event show":        {outbox.Event{}},
		"consumer failures": {consumers.Failure{}},
		"consumer forget":   {idem.ForgetResult{}},
		"consumer list":     {stats.Consumer{}},
		"consumer retry":    {dlq.Outcome{}},
		"consumer show":     {idem.Mark{}},
		"migrate":           {migrateResult{}, migrateDryRun{}},
		"migrate status":    {migrate.StepStatus{}},
		"migrate version":   {migrate.Versions{}},
		"pause":             {outbox.PauseResult{}},
		"pause list":        {outbox.HeldPause{}},
		"plan list":         {dlq.Plan{}},
		"plan run":          {dlq.Outcome{}},
		"plan show":         {dlq.PlanDetail{}},
		"registry apply":    {registry.ApplyResult{}},
		"registry check":    {registry.Refusal{}},
		"registry diff":     {registry.TypeChange{}},
		"registry list":     {registry.EventType{}},
		"registry show":     {registry.EventTypeDetail{}},
		"resume":            {outbox.PauseResult{}},
		"stats":             {stats.Report{}},
		"topic ensure":      {broker.Action{}},
		"publishers":        {dispatch.Peer{}},
		"topic list":        {broker.Topic{}},
		"version":           {cli.Build{}},
		"why":               {why.Result{}},
	}
}

// docs/json-output.md is the contract: every key that a command can print stands in the command's section, and every
// command that prints JSON has one.
func TestJSONContractNamesEveryKey(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/json-output.md")
	require.NoError(t, err)
	sections := strings.Split(string(page), "\n### ")[1:]

	objects := jsonObjects()
	walk(newRootCmd(cli.NewApp(cli.Streams{}, nil)), func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "outboxctl ")
		if c.Flags().Lookup("output") != nil {
			require.Contains(t, objects, path, "a command with -o has its object here and in docs/json-output.md")
		}
	})
	for path, values := range objects {
		var text string
		for _, section := range sections {
			title, _, _ := strings.Cut(section, "\n")
			if strings.Contains(title, "`"+path+"`") || (strings.HasPrefix(path, "migrate") && title == "`migrate`") {
				text += section
			}
		}
		require.NotEmpty(t, text, "docs/json-output.md has no section for %s", path)
		// The object of dlq list and event list stand in their own sections; others refer to them.
		for _, value := range values {
			for _, key := range jsonKeys(reflect.TypeOf(value), path, map[reflect.Type]bool{}) {
				require.Contains(t, text, "`"+key+"`", "docs/json-output.md, %s", path)
			}
		}
	}
}

// jsonKeys lists the keys of a type and of what it contains, as far as the section of the command explains it.
func jsonKeys(typ reflect.Type, path string, seen map[reflect.Type]bool) []string {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	elsewhere := path == "dlq show" && (typ == reflect.TypeFor[outbox.Event]() || typ == reflect.TypeFor[dlq.Entry]())
	if typ.Kind() != reflect.Struct || seen[typ] || opaque(typ) || elsewhere {
		return nil
	}
	seen[typ] = true
	var keys []string
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || (name == "" && !field.Anonymous) {
			continue
		}
		if name != "" {
			keys = append(keys, name)
		}
		keys = append(keys, jsonKeys(field.Type, path, seen)...)
	}
	return keys
}

// opaque tells that a type encodes itself.
func opaque(typ reflect.Type) bool {
	pointer := reflect.PointerTo(typ)
	return pointer.Implements(reflect.TypeFor[json.Marshaler]()) || pointer.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}
