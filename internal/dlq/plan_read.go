package dlq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"
)

// PlanReader reads the items of a plan one after the other. It is a Source.
type PlanReader struct {
	Header PlanHeader
	dec    *json.Decoder
	digest *planDigest
	count  int64
	done   bool
}

// CheckPlan reads a plan to its end and returns its header and the number of
// its items. Nothing is applied from a file that is damaged anywhere.
func CheckPlan(r io.Reader) (PlanHeader, int64, error) {
	p, err := OpenPlan(r)
	if err != nil {
		return PlanHeader{}, 0, err
	}
	for !p.done {
		if _, err := p.Next(context.Background(), ChunkSize); err != nil {
			return PlanHeader{}, 0, err
		}
	}
	return p.Header, p.count, nil
}

// OpenPlan reads a plan's header and stops before its items.
func OpenPlan(r io.Reader) (*PlanReader, error) {
	digest := &planDigest{r: r, sum: sha256.New()}
	p := &PlanReader{dec: json.NewDecoder(digest), digest: digest}
	if err := p.expect(json.Delim('{')); err != nil {
		return nil, err
	}
	header := map[string]json.RawMessage{}
	for {
		token, err := p.dec.Token()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPlan, broken(err))
		}
		name, isName := token.(string)
		if !isName {
			return nil, fmt.Errorf("%w: it has no items", ErrPlan)
		}
		if name == "items" {
			break
		}
		var value json.RawMessage
		if err := p.dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPlan, broken(err))
		}
		header[name] = value
	}
	doc, err := json.Marshal(header)
	if err == nil {
		err = json.Unmarshal(doc, &p.Header)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrPlan, broken(err))
	case p.Header.Format != planFormat:
		return nil, fmt.Errorf("%w: its format is %q, not %q", ErrPlan, p.Header.Format, planFormat)
	case p.Header.Version != planVersion:
		return nil, fmt.Errorf("%w: its version is %d, this program reads %d", ErrPlan, p.Header.Version, planVersion)
	case p.Header.ID == "" || p.Header.Database.SystemIdentifier == "":
		return nil, fmt.Errorf("%w: it does not say which database it is for", ErrPlan)
	}
	return p, p.expect(json.Delim('['))
}

// Next returns up to n more items.
func (p *PlanReader) Next(_ context.Context, n int) ([]Target, error) {
	var targets []Target
	for !p.done && len(targets) < n {
		if !p.dec.More() {
			p.done = true
			return targets, p.finish()
		}
		var item PlanItem
		if err := p.dec.Decode(&item); err != nil {
			return nil, fmt.Errorf("%w: item %d: %w", ErrPlan, p.count+1, broken(err))
		}
		p.count++
		if digest, err := hex.DecodeString(item.PayloadSHA256); err != nil || len(digest) != 32 || uuid.Validate(item.ID) != nil {
			return nil, fmt.Errorf("%w: item %d: id or digest is malformed", ErrPlan, p.count)
		}
		t := Target{ID: item.ID, EventID: item.EventID, Hash: item.PayloadSHA256}
		if p.Header.Action == Republish {
			t.EventID = item.ID
			if item.PublishedAt == nil {
				return nil, fmt.Errorf("%w: item %d: publishedAt is missing", ErrPlan, p.count)
			}
			t.At = *item.PublishedAt
		}
		targets = append(targets, t)
	}
	p.digest.upTo(p.dec.InputOffset())
	return targets, nil
}

// finish checks what follows the items: a file that was cut off has no count.
func (p *PlanReader) finish() error {
	if err := p.expect(json.Delim(']')); err != nil {
		return err
	}
	if err := p.expect("count"); err != nil {
		return err
	}
	var count int64
	if err := p.dec.Decode(&count); err != nil {
		return fmt.Errorf("%w: %w", ErrPlan, broken(err))
	}
	if count != p.count {
		return fmt.Errorf("%w: it says %d items and has %d", ErrPlan, count, p.count)
	}
	p.digest.upTo(p.dec.InputOffset())
	if err := p.expect("sha256"); err != nil {
		return err
	}
	var digest string
	if err := p.dec.Decode(&digest); err != nil {
		return fmt.Errorf("%w: %w", ErrPlan, broken(err))
	}
	if digest != hex.EncodeToString(p.digest.sum.Sum(nil)) {
		return fmt.Errorf("%w: it was changed after it was written", ErrPlan)
	}
	if err := p.expect(json.Delim('}')); err != nil {
		return err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", ErrPlan)
	}
	return nil
}

func (p *PlanReader) expect(want json.Token) error {
	token, err := p.dec.Token()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPlan, broken(err))
	}
	if token != want {
		return fmt.Errorf("%w: found %v where %v belongs", ErrPlan, token, want)
	}
	return nil
}

// broken describes what is wrong with a plan's JSON. One that was cut off must not look like the regular end of something.
func broken(err error) error {
	var (
		syntax *json.SyntaxError
		kind   *json.UnmarshalTypeError
	)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends too early")
	case errors.As(err, &syntax):
		return fmt.Errorf("it is not JSON, see byte %d", syntax.Offset)
	case errors.As(err, &kind):
		return fmt.Errorf("%s has a value of the wrong kind", kind.Field)
	default:
		return err
	}
}
