package wire

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzParseHeaders holds that headers are read as encoding/json reads them, and
// never take the place of an attribute of ours.
func FuzzParseHeaders(f *testing.F) {
	for _, text := range []string{
		``, `null`, `{}`, `{"traceparent": "00-1"}`, `{"event_id": "x"}`, `{"a": 1}`, `{"a": "b", "a": "c"}`, `{"\u0061": "\ud83d\ude00"}`, `{"a": "\ud800"}`, `[]`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		headers, err := ParseHeaders(text)
		if err != nil || len(text) == 0 {
			return
		}
		var want map[string]string
		require.NoError(t, json.Unmarshal(text, &want), "%s", text)
		if utf8.Valid(text) {
			require.True(t, maps.Equal(want, headers), "%s is %q, not %q", text, headers, want)
		}
		row := Row{ID: "id", EventType: "type", AggregateType: "aggregate", AggregateID: "aggregateId", Namespace: "default", CreatedAt: time.Unix(0, 0), Headers: headers}
		attrs := Attributes(row)
		for name, value := range headers {
			got, sent := attrs[name]
			require.True(t, sent && got == value || IsStandardAttribute(name), name)
			delete(attrs, name)
		}
		row.Headers = nil
		for name, value := range Attributes(row) {
			require.True(t, attrs[name] == value || headers[name] != "", name)
		}
	})
}

// The attributes' names are for good: consumers in any language read them.
func TestAttributes(t *testing.T) {
	t.Parallel()
	row := Row{
		ID: "i", EventType: "t", AggregateType: "a", AggregateID: "7", Namespace: "shop", CreatedAt: time.Unix(1, 5).UTC(),
		Headers: map[string]string{"traceparent": "00", "namespace": "forged"},
	}
	require.Equal(t, map[string]string{
		"event_id": "i", "event_type": "t", "aggregate_type": "a", "aggregate_id": "7", "created_at": "1970-01-01T00:00:01.000000005Z",
		"namespace": "shop", "traceparent": "00",
	}, Attributes(row))
	row.AggregateType, row.AggregateID, row.TenantID, row.DedupeKey, row.CloudEventsSource, row.Seq, row.Headers = "", "", "u", "u/1", "//chat", 12, nil
	require.Equal(t, map[string]string{
		"event_id": "i", "event_type": "t", "created_at": "1970-01-01T00:00:01.000000005Z", "namespace": "shop", "tenant_id": "u", "dedupe_key": "u/1", "event_seq": "12",
		"ce-specversion": "1.0", "ce-id": "i", "ce-type": "t", "ce-source": "//chat", "ce-time": "1970-01-01T00:00:01.000000005Z", "content-type": "application/json",
	}, Attributes(row))
}

// Consumers take the tenant, the namespace and the rest from the attributes: no header may say
// them, least of all where the row says nothing. Some consumers read names without their case.
func TestAHeaderIsNoneOfOurAttributes(t *testing.T) {
	t.Parallel()
	standard := []string{
		AttrEventID, AttrEventType, AttrAggregateType, AttrAggregateID, AttrCreatedAt, AttrNamespace, AttrTenantID, AttrDedupeKey, AttrEventSeq,
	}
	cloudEvent := []string{"ce-specversion", "ce-id", "ce-type", "ce-source", "ce-time", "ce-subject", "content-type"}
	headers := map[string]string{"traceparent": "00", "ce-traceparent": "01"}
	forge := func(names []string) {
		for _, name := range names {
			headers[name], headers[strings.ToUpper(name)], headers[strings.ToUpper(name[:1])+name[1:]] = "forged", "forged", "forged"
		}
	}
	forge(standard)
	row := Row{ID: "i", EventType: "t", Namespace: "shop", CreatedAt: time.Unix(1, 0), Headers: headers}
	require.Equal(t, map[string]string{
		"event_id": "i", "event_type": "t", "created_at": "1970-01-01T00:00:01Z", "namespace": "shop", "traceparent": "00", "ce-traceparent": "01",
	}, Attributes(row))

	forge(cloudEvent)
	require.Equal(t, "forged", Attributes(row)["ce-subject"], "a header like any other where messages are no CloudEvents")
	row.CloudEventsSource = "//shop"
	require.Equal(t, map[string]string{
		"event_id": "i", "event_type": "t", "created_at": "1970-01-01T00:00:01Z", "namespace": "shop", "traceparent": "00", "ce-traceparent": "01",
		"ce-specversion": "1.0", "ce-id": "i", "ce-type": "t", "ce-source": "//shop", "ce-time": "1970-01-01T00:00:01Z", "content-type": "application/json",
	}, Attributes(row))
}
