package check

import (
	"errors"
	"os"

	"github.com/outboxctl/outboxctl/lab/history"
)

// File judges a run from its recording.
func File(path string) (Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = file.Close() }()
	h, err := history.Read(file)
	if err != nil {
		return Report{}, err
	}
	if h.Run.Ended.IsZero() {
		return Report{}, errors.New("the run did not come to its end")
	}
	return Check(h), nil
}
