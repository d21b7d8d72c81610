package ui

import (
	"fmt"
	"strings"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/internal/registry"
	"github.com/outboxctl/outboxctl/internal/safetext"
)

func cataloguePage(r *request) (*view, error) {
	return &view{Title: "Catalogue", Command: "outboxctl registry list", template: "catalogue", Data: r.h.reader.types.Load().List()}, nil
}

// typeData is the page of an event type. Shell and SQL emit such an event.
type typeData struct {
	registry.EventTypeDetail
	SchemaText, Shell, SQL string
}

func typePage(r *request) (*view, error) {
	types := r.h.reader.types.Load()
	t, err := types.Show(registry.TypeParams{Name: r.PathValue("type"), Namespace: one(r.URL.Query(), "namespace", "")})
	if err != nil {
		return nil, err
	}
	if t.AppliedAt != nil {
		if t.Publishers, err = types.Holders(r.Context(), r.outbox.DB, t.EventType); err != nil {
			return nil, err
		}
	}
	d := typeData{EventTypeDetail: t, SchemaText: indented(t.Schema)}
	d.Shell, d.SQL = sampleCalls(t)
	return &view{Title: t.Type, Command: "outboxctl registry show " + safetext.QuoteWord(t.Type), template: "type", Data: d}, nil
}

// sampleCalls emit an event of a type, with data that its schema accepts, of a made-up aggregate.
func sampleCalls(t registry.EventTypeDetail) (shell, sql string) {
	data, aggregate, id := string(t.Sample), "NULL", "NULL"
	if data == "" || data == "null" {
		data = "{}"
	}
	shell = "outboxctl emit --type " + safetext.QuoteWord(t.Type)
	if t.AggregateType != catalogue.None {
		aggregate, id = sqlText(t.AggregateType), sqlText(sampleID)
		shell += " --aggregate-id " + sampleID
	}
	shell += " --data " + safetext.QuoteWord(data)
	sql = fmt.Sprintf("SELECT id FROM outbox_emit(%s, %s, %s, %s", sqlText(t.Type), aggregate, id, sqlText(data))
	if t.Namespace != "default" && t.Namespace != catalogue.AllNamespaces {
		shell += " --namespace " + safetext.QuoteWord(t.Namespace)
		sql += ", namespace => " + sqlText(t.Namespace)
	}
	return shell, sql + ");"
}

const sampleID = "018f3f6e-0000-7000-8000-00000000000a"

func sqlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
