package dlq

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
)

// planWriter writes a plan: a header, items one by one, and at the end their
// number and the digest of everything before. A plan decides what is done to
// thousands of events, so a file with one wrong byte is not applied.
type planWriter struct {
	out *bufio.Writer
	sum hash.Hash
	n   int64
}

func newPlanWriter(w io.Writer, h PlanHeader) (*planWriter, error) {
	p := &planWriter{out: bufio.NewWriterSize(w, 1<<16), sum: sha256.New()}
	head, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	// The header's closing brace gives way to the items.
	p.printf("%s,\n  \"items\": [", head[:len(head)-2])
	return p, nil
}

// printf writes, and counts towards the digest. What does not reach the file is
// found by finish.
func (p *planWriter) printf(format string, args ...any) {
	fmt.Fprintf(io.MultiWriter(p.out, p.sum), format, args...)
}

func (p *planWriter) add(item PlanItem) error {
	doc, err := json.Marshal(item)
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	separator := ""
	if p.n > 0 {
		separator = ","
	}
	p.printf("%s\n    %s", separator, doc)
	p.n++
	return nil
}

func (p *planWriter) finish() error {
	p.printf("\n  ],\n  \"count\": %d", p.n)
	fmt.Fprintf(p.out, ",\n  \"sha256\": \"%s\"\n}\n", hex.EncodeToString(p.sum.Sum(nil)))
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// planDigest remembers what a decoder has read ahead, so that the digest can
// end where the decoder is.
type planDigest struct {
	r      io.Reader
	sum    hash.Hash
	ahead  []byte
	hashed int64
}

func (d *planDigest) Read(buf []byte) (int, error) {
	n, err := d.r.Read(buf)
	d.ahead = append(d.ahead, buf[:n]...)
	return n, err
}

// upTo takes everything before offset into the digest.
func (d *planDigest) upTo(offset int64) {
	n := offset - d.hashed
	d.sum.Write(d.ahead[:n])
	d.ahead = append(d.ahead[:0], d.ahead[n:]...)
	d.hashed = offset
}
