package ui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/internal/outboxtest"
	"github.com/outboxctl/outboxctl/ui"
)

// schema is the part of JSON Schema that openapi.yaml uses.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       any               `json:"type"`
	Required   []string          `json:"required"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
	Additional any               `json:"additionalProperties"`
	Enum       []string          `json:"enum"`
}

type openAPI struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Ref  string `json:"$ref"`
			Name string `json:"name"`
		} `json:"parameters"`
		Responses map[string]struct {
			Content map[string]struct{ Schema schema } `json:"content"`
		} `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
}

func readOpenAPI(t *testing.T) (api openAPI) {
	t.Helper()
	content, err := ui.Described()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &api))
	return api
}

// check compares a value with a schema and returns everything that differs. A key that is not described is an error.
func (api openAPI) check(s schema, value any, at string) (problems []string) {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return api.check(api.Components.Schemas[name], value, at)
	}
	kinds := []string{fmt.Sprint(s.Type)}
	if list, ok := s.Type.([]any); ok {
		kinds = nil
		for _, k := range list {
			kinds = append(kinds, fmt.Sprint(k))
		}
	}
	kind := map[bool]string{true: "integer", false: "number"}[fmt.Sprint(value) == strings.Split(fmt.Sprint(value), ".")[0]]
	switch v := value.(type) {
	case nil:
		kind = "null"
	case string:
		kind = "string"
		if s.Enum != nil && !slices.Contains(s.Enum, v) {
			problems = append(problems, fmt.Sprintf("%s: %q is none of %v", at, v, s.Enum))
		}
	case bool:
		kind = "boolean"
	case []any:
		kind = "array"
		for i, item := range v {
			problems = append(problems, api.check(*s.Items, item, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case map[string]any:
		kind = "object"
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				problems = append(problems, at+"."+name+" is missing")
			}
		}
		for name, item := range v {
			if property, ok := s.Properties[name]; ok {
				problems = append(problems, api.check(property, item, at+"."+name)...)
			} else if s.Additional == nil {
				problems = append(problems, at+"."+name+" is not described")
			}
		}
	}
	if !slices.Contains(kinds, kind) && (kind != "integer" || !slices.Contains(kinds, "number")) {
		problems = append(problems, fmt.Sprintf("%s is %s, not %v", at, kind, kinds))
	}
	return problems
}

func TestTheAPIIsAsDescribed(t *testing.T) {
	b := setup(t, func(c *ui.Config) { c.Redis = outboxtest.Redis(t).Client })
	api := readOpenAPI(t)
	for path, operations := range api.Paths {
		address := "/api/v1" + path
		switch {
		case strings.HasPrefix(path, "/dead-letters/"):
			address = strings.Replace(address, "{id}", "00000000-0000-7000-8000-0000000000d3", 1)
		case path == "/ordering-keys":
			address += "?key=x"
		case strings.HasPrefix(path, "/events/"):
			address = strings.Replace(address, "{id}", "00000000-0000-7000-8000-0000000000e3", 1)
		default:
			address = strings.NewReplacer("{id}", b.planID(), "{run}", b.discarded(), "{type}", "order_created").Replace(address)
		}
		operation, looks := operations["get"]
		if !looks {
			continue
		}
		status, header, body := b.get(address)
		require.Equal(t, http.StatusOK, status, "%s: %s", path, body)
		require.Equal(t, "application/json", header.Get("Content-Type"))
		require.NotContains(t, body, secret, path)
		var value any
		decoder := json.NewDecoder(strings.NewReader(body))
		decoder.UseNumber()
		require.NoError(t, decoder.Decode(&value), path)
		require.Empty(t, api.check(operation.Responses["200"].Content["application/json"].Schema, value, path))

		// Every parameter that is described is known, and no other.
		if strings.Contains(path, "{") {
			continue
		}
		for _, p := range operation.Parameters {
			name := p.Name
			if p.Ref != "" {
				name = p.Ref[strings.LastIndex(p.Ref, "/")+1:]
			}
			_, _, body := b.get(strings.TrimSuffix(address, "?key=x") + "?" + name + "=")
			require.NotContains(t, body, "is no filter", "%s knows %s", path, name)
		}
		status, header, body = b.get(strings.Replace(address+"?nonsense=1", "?key=x?", "?key=x&", 1))
		require.Equal(t, http.StatusBadRequest, status, path)
		require.Equal(t, "application/problem+json", header.Get("Content-Type"))
		var problem any
		require.NoError(t, json.Unmarshal([]byte(body), &problem))
		require.Empty(t, api.check(schema{Ref: "#/components/schemas/Problem"}, problem, "problem"))
	}
	status, _, body := b.get("/api/v1/openapi.json")
	require.Equal(t, http.StatusOK, status)
	require.True(t, json.Valid([]byte(body)))
}

// What is served and what is described are the same addresses.
func TestEveryRouteIsDescribed(t *testing.T) {
	t.Parallel()
	api := readOpenAPI(t)
	var described []string
	for path, operations := range api.Paths {
		for method := range operations {
			described = append(described, method+" "+path)
		}
	}
	slices.Sort(described)
	require.Equal(t, described, ui.APIPaths())
}

// An address that is there and does not take a method says which it takes.
func TestAMethodThatIsNotAllowed(t *testing.T) {
	b := setup(t, operators)
	for call, allow := range map[string]string{
		"POST /api/v1/stats": "GET", "DELETE /api/v1/events": "GET", "PUT /api/v1/plans": "GET, POST", "GET /api/v1/plans/" + b.planID() + "/run": "POST", "DELETE /audit": "GET",
	} {
		method, path, _ := strings.Cut(call, " ")
		status, header, body := b.send(method, path, jsonType, "")
		require.Equal(t, http.StatusMethodNotAllowed, status, "%s: %s", call, body)
		require.Equal(t, allow, header.Get("Allow"), call)
	}
	status, _, _ := b.send(http.MethodPost, "/api/v1/nothing", jsonType, "")
	require.Equal(t, http.StatusNotFound, status)
}

func TestAListGoesOnByItsLink(t *testing.T) {
	b := setup(t, nil)
	address, seen := "/api/v1/events?limit=1", map[string]bool{}
	for address != "" {
		status, header, body := b.get(address)
		require.Equal(t, http.StatusOK, status, body)
		var rows []struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(body), &rows))
		for _, row := range rows {
			require.False(t, seen[row.ID])
			seen[row.ID] = true
		}
		address, _, _ = strings.Cut(strings.TrimPrefix(header.Get("Link"), "<"), ">")
	}
	require.Len(t, seen, 4)
}
