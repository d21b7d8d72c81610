package catalogue_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/catalogue"
	"github.com/outboxctl/outboxctl/emit/packfinderz"
	"github.com/outboxctl/outboxctl/emit/wire"
)

// A schema calculates with numbers exactly, which takes minutes for long ones, so it is not asked about them. What
// fits a double is short enough, and a type without a schema takes any number.
func TestNumbersOfManyDigitsAreRefusedBeforeTheSchemaIsAsked(t *testing.T) {
	t.Parallel()
	c, err := catalogue.New("numbers", catalogue.Type{Name: "x", Topic: "a", Aggregate: catalogue.None, ExtraFields: catalogue.Allow,
		Schema: `{"type": "object", "properties": {"n": {"type": "array", "items": {"type": "number", "minimum": -1e400, "multipleOf": 1e-800}}}}`},
		catalogue.Type{Name: "any", Topic: "a", Aggregate: catalogue.None, Schema: catalogue.Any})
	require.NoError(t, err)
	for number, fits := range map[string]bool{
		"1.7976931348623157e308": true, "-4.9406564584124654e-324": true, strings.Repeat("7", 1024): true, "0.00": true, "1E+300": true,
		strings.Repeat("7", 1025): false, "1e131071": false, "1e-16383": false, "1E+2000": false, "1e99999999999999999999": false, "0." + strings.Repeat("7", 1025): false,
	} {
		data := json.RawMessage(`{"a": [{"b": 1}], "n": [0, ` + number + `]}`)
		if err := c.Validate("x", data); fits {
			require.NoError(t, err, number)
		} else {
			require.ErrorContains(t, err, "data.n[1] has more than 1024 digits; send such a number as a string", number)
		}
		require.NoError(t, c.Validate("any", json.RawMessage(number)))
	}
}

// Errors name the field and the rule, and never the value.
func TestErrorsNameFieldAndRule(t *testing.T) {
	t.Parallel()
	c, err := catalogue.New("rules", catalogue.Type{Name: "x", Topic: "a", Aggregate: catalogue.None, Schema: `{
		"type": "object", "required": ["id", "at"],
		"properties": {
			"id": {"type": "string", "minLength": 1, "maxLength": 5, "pattern": "^[a-z]+$"}, "at": {"format": "date-time"},
			"lines": {"type": "array", "minItems": 1, "maxItems": 3, "uniqueItems": true, "items": {"type": "integer", "minimum": 1, "maximum": 9}},
			"state": {"enum": ["open", "closed", 3]}, "either": {"oneOf": [{"type": "string"}, {"type": "number"}]},
			"sum": {"multipleOf": 0.5, "exclusiveMinimum": 0, "exclusiveMaximum": 10}, "no": {"not": {"const": "secret"}}
		}, "dependentRequired": {"sum": ["state"]}}`})
	require.NoError(t, err)
	const at = `"at": "2026-01-02T03:04:05Z"`
	for data, want := range map[string]string{
		`{}`:                           "data.at is required; data.id is required",
		`null`:                         "data must not be null; an event without data carries {}",
		``:                             "data is required",
		`[]`:                           "data must be an object, not an array",
		`{"id": "SECRET", ` + at + `}`: "data.id must have at most 5 characters; data.id must match ^[a-z]+$",
		`{"id": "", ` + at + `}`:       "data.id must match ^[a-z]+$; data.id must not be empty",
		`{"id": 7331, ` + at + `}`:     "data.id must be a string, not a number",
		`{"id": "a", "at": "today"}`:   "data.at must be an RFC 3339 timestamp, and not the zero time",
		`{"id": "a", "at": "0001-01-01T00:00:00Z"}`:          "data.at must be an RFC 3339 timestamp, and not the zero time",
		`{"id": "a", ` + at + `, "lines": []}`:               "data.lines must have at least 1 elements",
		`{"id": "a", ` + at + `, "lines": [1, 0, 10, 7331]}`: "data.lines must have at most 3 elements; data.lines[1] must be at least 1; data.lines[2] must be at most 9; data.lines[3] must be at most 9",
		`{"id": "a", ` + at + `, "lines": [1, 1]}`:           "data.lines must not have the same element twice",
		`{"id": "a", ` + at + `, "state": "SECRET"}`:         "data.state must be one of open, closed, 3",
		`{"id": "a", ` + at + `, "either": true}`:            "data.either must be exactly one of the forms that the schema allows",
		`{"id": "a", ` + at + `, "state": 3, "sum": 0.7331}`: "data.sum must be a multiple of 0.5",
		`{"id": "a", ` + at + `, "state": 3, "sum": 0}`:      "data.sum must be more than 0",
		`{"id": "a", ` + at + `, "state": 3, "sum": 10}`:     "data.sum must be less than 10",
		`{"id": "a", ` + at + `, "sum": 1}`:                  "data.state is required beside sum",
		`{"id": "a", ` + at + `, "no": "secret"}`:            "data.no has a form that the schema excludes",
		`{"id": "a", ` + at + `, "more": 1, "less": 2}`:      "data.less is not a field of this payload; data.more is not a field of this payload",
		`{"id": "a", ` + at + `, "state": "open"}`:           "",
	} {
		err := c.Validate("x", json.RawMessage(data))
		var payload *wire.PayloadError
		if want == "" {
			require.NoError(t, err, data)
			continue
		}
		require.ErrorAs(t, err, &payload, data)
		require.Equal(t, want, payload.Problems.String(), data)
		require.NotContains(t, strings.ToLower(err.Error()), "secret")
		require.NotContains(t, err.Error(), "7331")
	}
}

// Writers are held to the schema; the carrier is as tolerant as the type says.
func TestExtraFieldsEmptyAndWhoChecks(t *testing.T) {
	t.Parallel()
	const schema = `{"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}`
	for name, test := range map[string]struct {
		t                catalogue.Type
		data             string
		emitted, carried bool
		extra            int
	}{
		"extra, warn":                 {catalogue.Type{}, `{"id": "a", "more": 1, "most": 2}`, false, true, 2},
		"extra, refuse":               {catalogue.Type{ExtraFields: catalogue.Refuse}, `{"id": "a", "more": 1}`, false, false, 0},
		"extra, allow":                {catalogue.Type{ExtraFields: catalogue.Allow}, `{"id": "a", "more": 1}`, true, true, 0},
		"wrong, warn":                 {catalogue.Type{}, `{"id": 1, "more": 1}`, false, false, 0},
		"wrong, checked early":        {catalogue.Type{Check: catalogue.CheckEmit}, `{"id": 1}`, false, true, 0},
		"empty":                       {catalogue.Type{}, `{}`, false, false, 0},
		"empty, allowed":              {catalogue.Type{Empty: catalogue.Allow}, ` { } `, true, true, 0},
		"null, empty allowed":         {catalogue.Type{Empty: catalogue.Allow}, `null`, false, false, 0},
		"an object":                   {catalogue.Type{Schema: catalogue.Object}, `{"anything": 1}`, true, true, 0},
		"a schema that names nothing": {catalogue.Type{Schema: `{"type": "object"}`}, `{"anything": 1}`, true, true, 0},
		"not an object":               {catalogue.Type{}, `[]`, false, false, 0},
		"no object":                   {catalogue.Type{Schema: catalogue.Object}, `7`, false, false, 0},
		"any":                         {catalogue.Type{Schema: catalogue.Any}, `7`, true, true, 0},
		"any but null":                {catalogue.Type{Schema: catalogue.Any}, `null`, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.t.Name, test.t.Topic, test.t.Aggregate = "x", "a", "o"
			if test.t.Schema == "" {
				test.t.Schema = schema
			}
			c, err := catalogue.New("n", test.t)
			require.NoError(t, err)
			require.Equal(t, test.emitted, c.Validate("x", json.RawMessage(test.data)) == nil)
			extra, err := c.Check("default", "x", json.RawMessage(test.data))
			require.Equal(t, test.carried, err == nil)
			require.Equal(t, test.extra, extra)
		})
	}
}

// A schema that refers to files judges by them, and its digest changes with them.
// A schema that is written in the catalogue itself refers to its own parts, and to files beside the catalogue.
func TestInlineSchemasReferToTheirParts(t *testing.T) {
	t.Parallel()
	c, err := catalogue.Load(fstest.MapFS{
		"shop.yaml": {Data: []byte(`{outbox: 1, name: shop, topics: {t: t}, types: {a: {topic: t, aggregate: a, schema: {
			type: object, required: [lines, id], properties: {lines: {type: array, items: {$ref: "#/$defs/line"}}, id: {$ref: "common.json#/$defs/id"}},
			$defs: {line: {type: object, required: [sku], properties: {sku: {type: string}}}}}}}}`)},
		"common.json": {Data: []byte(`{"$defs": {"id": {"type": "string"}}}`)},
	}, "shop.yaml")
	require.NoError(t, err)
	text, err := c.YAML()
	require.NoError(t, err)
	again, err := catalogue.Load(fstest.MapFS{"again.yaml": {Data: text}}, "again.yaml")
	require.NoError(t, err)
	for _, c := range []*catalogue.Catalogue{c, again} {
		require.NoError(t, c.Validate("a", json.RawMessage(`{"lines": [{"sku": "x"}], "id": "1"}`)))
		require.ErrorContains(t, c.Validate("a", json.RawMessage(`{"lines": [{}], "id": 1}`)), "data.id must be a string, not a number; data.lines[0].sku is required")
	}
}

func TestReferencedFilesCount(t *testing.T) {
	t.Parallel()
	c := load(t, folder(nil))
	require.NoError(t, c.Validate("order.ready", json.RawMessage(`{"orderId": "a", "lines": [{"n": 1, "free": 2}]}`)))
	err := c.Validate("order.ready", json.RawMessage(`{"orderId": "", "lines": [{"n": 0}]}`))
	require.ErrorContains(t, err, "data.lines[0].n must be at least 1; data.orderId must not be empty")

	other := load(t, folder(map[string]string{"conf/schemas/common.json": `{"$defs": {"id": {"type": "integer"}}}`}))
	require.Error(t, other.Validate("order.ready", json.RawMessage(`{"orderId": "a"}`)))
	a, _ := c.Find("", "order.ready")
	b, _ := other.Find("", "order.ready")
	require.NotEqual(t, a.Digest(), b.Digest())
}

// FuzzPackFinderzAsYAML holds the compiled catalogue and the same one as YAML to the same verdict of every data that jsonb
// can hold.
func FuzzPackFinderzAsYAML(f *testing.F) {
	compiled := catalogue.PackFinderz()
	text, err := compiled.YAML()
	require.NoError(f, err)
	written, err := catalogue.Load(fstest.MapFS{"packfinderz.yaml": {Data: text}}, "packfinderz.yaml")
	require.NoError(f, err)
	const id = `"0198f1c2-7b1e-7c3a-9d52-111111111111"`
	for i, data := range []string{
		`{}`, ` { } `, `null`, `[]`, `7`, `{"orderId": ` + id + `}`,
		`{"orderId": ` + id + `, "checkoutGroupId": null, "from": "a", "to": "b"}`,
		`{"orderId": ` + id + `, "checkoutGroupId": null, "from": "", "to": "b", "reason": ""}`,
		`{"checkoutGroupId": ` + id + `, "vendorOrderIds": [` + id + `, "00000000-0000-0000-0000-000000000000"]}`,
		`{"checkoutGroupId": ` + strings.ToUpper(id) + `, "vendorOrderIds": []}`,
		`{"checkoutGroupId": "{0198f1c2-7b1e-7c3a-9d52-111111111111}", "vendorOrderIds": {}}`,
		`{"licenseId": ` + id + `, "storeId": ` + id + `, "status": "verified", "more": 1}`,
		`{"licenseId": ` + id + `, "storeId": ` + id + `, "status": "lost"}`,
		`{"mediaId": ` + id + `, "storeId": ` + id + `, "kind": "k", "sizeBytes": 1.0}`,
		`{"mediaId": ` + id + `, "storeId": ` + id + `, "kind": "k", "sizeBytes": 9223372036854775808}`,
		`{"mediaId": ` + id + `, "storeId": ` + id + `, "kind": "k", "sizeBytes": -0}`,
		`{"mediaId": ` + id + `, "storeId": ` + id + `, "kind": "k", "sizeBytes": 1e3}`,
		`{"adId": ` + id + `, "storeId": ` + id + `, "at": "2026-01-02T03:04:60Z", "changes": []}`,
		`{"adId": ` + id + `, "storeId": ` + id + `, "at": "2026-01-02t03:04:05z", "changes": 1}`,
		`{"adId": ` + id + `, "storeId": ` + id + `, "at": "0000-12-31T23:00:00-01:00"}`,
		`{"adId": ` + id + `, "date": "2026-02-29", "impressions": 1, "clicks": 1, "spendCents": 1}`,
		`{"adId": ` + id + `, "date": "2024-02-29", "impressions": 1, "clicks": 1, "spendCents": 1}`,
	} {
		for n := range (packfinderz.Catalogue{}).Types() {
			f.Add(byte(n), data)
		}
		_ = i
	}
	types := packfinderz.Catalogue{}.Types()
	f.Fuzz(func(t *testing.T, n byte, data string) {
		if _, err := wire.StoredBytes([]byte(data)); err != nil {
			t.Skip()
		}
		name := types[int(n)%len(types)].Name
		for what, judge := range map[string]func(*catalogue.Catalogue) error{
			"emitted": func(c *catalogue.Catalogue) error { return c.Validate(name, json.RawMessage(data)) },
			"carried": func(c *catalogue.Catalogue) error { _, err := c.Check("", name, json.RawMessage(data)); return err },
		} {
			var a, b *wire.PayloadError
			if one, other := errors.As(judge(compiled), &a), errors.As(judge(written), &b); one != other {
				t.Fatalf("%s %s of %s: compiled says %v, the file says %v", data, what, name, a, b)
			}
		}
	})
}
