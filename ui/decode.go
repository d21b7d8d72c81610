package ui

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/fault"
)

// maxBody is the largest body: some twenty thousand ids.
const maxBody = 1 << 20

// decode reads what a request asks for: JSON in the API, a form on a page. The fields of a form
// have the names of the JSON; that of confirm.count is count inside confirm. A field that nothing
// reads is refused: a typing error must not widen a set.
func (r *request) decode(into any) error {
	if isAPI(r.Request) && r.ContentLength == 0 {
		return nil
	}
	want := "application/x-www-form-urlencoded"
	if isAPI(r.Request) {
		want = "application/json"
	}
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != want {
		return statusError{http.StatusUnsupportedMediaType, fault.Usagef("the request needs Content-Type: %s", want)}
	}
	var doc io.Reader = r.Body
	if !isAPI(r.Request) {
		if err := r.ParseForm(); err != nil {
			return bodyError(err)
		}
		doc = bytes.NewReader(formAsJSON(r.PostForm))
	}
	decoder := json.NewDecoder(doc)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil && decoder.More() {
		err = errors.New("it has more than one document")
	}
	return bodyError(err)
}

func formAsJSON(form url.Values) []byte {
	doc := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(form)) {
		within, value := doc, any(form[name])
		if len(form[name]) == 1 {
			value = form[name][0]
		}
		if outer, inner, nested := strings.Cut(name, "."); nested {
			if within, _ = doc[outer].(map[string]any); within == nil {
				within = map[string]any{}
				doc[outer] = within
			}
			name = inner
		}
		within[name] = value
	}
	out, _ := json.Marshal(doc) // texts, which cannot fail
	return out
}

func bodyError(err error) error {
	if err == nil {
		return nil
	}
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return statusError{http.StatusRequestEntityTooLarge, fault.Usagef("the request is larger than %d bytes", large.Limit)}
	}
	return fault.Usagef("the request cannot be read: %w", err)
}

// texts is a text, or several that are alternatives.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(doc []byte) error {
	var one *string
	if json.Unmarshal(doc, &one) == nil && one != nil {
		*t = texts{*one}
		return nil
	}
	var several []*string
	if json.Unmarshal(doc, &several) != nil || several == nil || slices.Contains(several, nil) {
		return errors.New("must be text, or a list of texts")
	}
	*t = texts{} // a list of none is given, too
	for _, s := range several {
		*t = append(*t, *s)
	}
	return nil
}

// word is a text, a number or a truth, as it was written: a form has texts only.
type word string

// UnmarshalJSON implements json.Unmarshaler.
func (w *word) UnmarshalJSON(doc []byte) error {
	if json.Unmarshal(doc, (*string)(w)) == nil {
		*w = word(strings.TrimSpace(string(*w)))
		return nil
	}
	if doc[0] == '{' || doc[0] == '[' {
		return errors.New("must be one value")
	}
	*w = word(doc)
	return nil
}

// yes reports whether a box is ticked: true, or 1 in a form.
func (w word) yes(name string) (bool, error) {
	switch w {
	case "true", "1":
		return true, nil
	case "", "false":
		return false, nil
	}
	return false, fault.Usagef("%s: %q is neither true nor false", name, w)
}

// number reads a number by the rule for its kind; an empty one is 0.
func (w word) number(name string, parse func(string) (float64, error)) (float64, error) {
	if w == "" {
		return 0, nil
	}
	n, err := parse(string(w))
	if err != nil {
		return 0, fault.Usagef("%s: %w", name, err)
	}
	return n, nil
}
