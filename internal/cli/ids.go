package cli

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/outboxctl/outboxctl/internal/fault"
	"github.com/outboxctl/outboxctl/internal/outbox"
)

// ReadIDs checks ids given as arguments, or with - as lines on standard input, all of them before
// anything is done.
func ReadIDs(in io.Reader, args []string) ([]string, error) {
	if !slices.Contains(args, "-") {
		return checkIDs(args, "")
	}
	if len(args) > 1 {
		return nil, fault.Usagef("- reads the ids from standard input; give no others")
	}
	var lines []string
	scan := bufio.NewScanner(in)
	for scan.Scan() {
		lines = append(lines, strings.TrimSpace(scan.Text()))
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("read ids: %w", err)
	}
	return checkIDs(lines, "line")
}

// checkIDs returns each id once, however often and in whatever case it was written: what is
// announced is counted by them.
func checkIDs(texts []string, where string) ([]string, error) {
	ids := make([]string, 0, len(texts))
	seen := make(map[string]bool, len(texts))
	for i, text := range texts {
		if text == "" && where != "" {
			continue
		}
		id, err := outbox.ParseID(text)
		if err != nil && where != "" {
			return nil, fault.As(fault.Usage, fmt.Errorf("%s %d: %w", where, i+1, err))
		}
		if err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids, nil
}
