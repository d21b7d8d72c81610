package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/outboxctl/outboxctl/emit/internal/jsonb"
	"github.com/outboxctl/outboxctl/emit/internal/short"
)

// The attributes that messages carry. Headers may not use these names. AttrAggregateType
// and AttrAggregateID are absent where events are about no aggregate, AttrTenantID and
// AttrDedupeKey where the row has none, AttrEventSeq where it has no ordering key.
const (
	AttrEventID       = "event_id"
	AttrEventType     = "event_type"
	AttrAggregateType = "aggregate_type"
	AttrAggregateID   = "aggregate_id"
	AttrCreatedAt     = "created_at"
	AttrNamespace     = "namespace"
	AttrTenantID      = "tenant_id"
	AttrDedupeKey     = "dedupe_key"
	AttrEventSeq      = "event_seq"
)

// StandardAttributes is how many attributes are kept free of headers, beside one more
// where the event has an ordering key.
const StandardAttributes = 8

// usualAttributes is how many of them most messages have. A map of up to eight is much
// smaller than one with room for more.
const usualAttributes = 6

// IsStandardAttribute reports whether an attribute of that name, however it is capitalised, is the
// publisher's to set.
func IsStandardAttribute(name string) bool {
	switch strings.ToLower(name) {
	case AttrEventID, AttrEventType, AttrAggregateType, AttrAggregateID, AttrCreatedAt, AttrNamespace, AttrTenantID, AttrDedupeKey, AttrEventSeq:
		return true
	}
	return false
}

// The attributes of a CloudEvent in binary mode, behind the prefix of a broker's binding, and
// the one that has none.
const (
	ceSpecVersion   = "specversion"
	ceID            = "id"
	ceType          = "type"
	ceSource        = "source"
	ceTime          = "time"
	ceSubject       = "subject"
	attrContentType = "content-type"
)

// defaultCEPrefix is that of Pub/Sub, HTTP and NATS.
const defaultCEPrefix = "ce-"

// cePrefixes returns those of all bindings, in lower case: an emitter does not know the broker.
func cePrefixes() [4]string {
	return [...]string{defaultCEPrefix, "ce_", "cloudevents_", "cloudevents:"}
}

// CloudEventAttributes is how many more attributes a message has that is a CloudEvent.
const CloudEventAttributes = 7

// IsCloudEventAttribute reports whether an attribute of that name, however it is capitalised, is
// the publisher's to set in a CloudEvent.
func IsCloudEventAttribute(name string) bool {
	name = strings.ToLower(name)
	if name == attrContentType {
		return true
	}
	for _, prefix := range cePrefixes() {
		switch rest, found := strings.CutPrefix(name, prefix); {
		case !found:
		case rest == ceSpecVersion, rest == ceID, rest == ceType, rest == ceSource, rest == ceTime, rest == ceSubject:
			return true
		}
	}
	return false
}

// Row is what of an event's row becomes attributes of its message.
type Row struct {
	ID, EventType                  string
	AggregateType, AggregateID     string
	Namespace, TenantID, DedupeKey string
	CreatedAt                      time.Time
	Headers                        map[string]string
	// Seq is the event's place in its ordering key; zero where it has none.
	Seq int64
	// CloudEventsSource, when set, adds the attributes of a CloudEvent in binary mode, whose
	// names begin with CloudEventsPrefix; empty means "ce-".
	CloudEventsSource, CloudEventsPrefix string
}

// Attributes builds the attributes of a message: those of the row's columns and its headers. A
// header with the name of an attribute of ours, however it is capitalised, is left out, whether the
// row has a value for it or not: a consumer trusts event_id and tenant_id to be the row's.
func Attributes(row Row) map[string]string {
	attrs := make(map[string]string, len(row.Headers)+usualAttributes)
	for name, value := range row.Headers {
		if !IsStandardAttribute(name) && (row.CloudEventsSource == "" || !IsCloudEventAttribute(name)) {
			attrs[name] = value
		}
	}
	set := func(name, value string) {
		if value != "" {
			attrs[name] = value
		}
	}
	attrs[AttrEventID] = row.ID
	attrs[AttrEventType] = row.EventType
	attrs[AttrCreatedAt] = row.CreatedAt.UTC().Format(time.RFC3339Nano)
	if row.AggregateType != "" {
		attrs[AttrAggregateType] = row.AggregateType
		attrs[AttrAggregateID] = row.AggregateID
	}
	set(AttrNamespace, row.Namespace)
	set(AttrTenantID, row.TenantID)
	set(AttrDedupeKey, row.DedupeKey)
	if row.Seq > 0 {
		attrs[AttrEventSeq] = strconv.FormatInt(row.Seq, 10)
	}
	if row.CloudEventsSource != "" {
		prefix := cmp.Or(row.CloudEventsPrefix, defaultCEPrefix)
		attrs[prefix+ceSpecVersion] = "1.0"
		attrs[prefix+ceID] = row.ID
		attrs[prefix+ceType] = row.EventType
		attrs[prefix+ceSource] = row.CloudEventsSource
		attrs[prefix+ceTime] = attrs[AttrCreatedAt]
		attrs[attrContentType] = "application/json"
		set(prefix+ceSubject, row.AggregateID)
	}
	return attrs
}

// ParseHeaders reads a row's headers column: NULL, or an object of strings. Rows
// written without the emit function may hold anything. One that claims to be another event
// is an error; Attributes leaves out what else is not a header's to say.
func ParseHeaders(raw json.RawMessage) (map[string]string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	members, err := jsonb.Members(raw, "headers")
	if err != nil {
		return nil, errors.New("headers are not a JSON object")
	}
	headers := make(map[string]string, len(members))
	for _, m := range members {
		value, ok := jsonb.String(m.Value)
		if !ok {
			return nil, fmt.Errorf("header %q is not a string", short.Name(m.Name))
		}
		switch m.Name {
		case AttrEventID, AttrEventType, AttrAggregateType, AttrAggregateID, AttrCreatedAt:
			return nil, fmt.Errorf("header %q is an attribute the publisher sets", m.Name)
		}
		headers[m.Name] = value
	}
	return headers, nil
}
