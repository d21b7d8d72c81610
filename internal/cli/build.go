package cli

import "fmt"

// A Build is the version of this program and where it came from.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Date    string `json:"date"`
	Go      string `json:"go"`
}

func (v Build) String() string {
	return fmt.Sprintf("%s (commit %s, built %s, %s)", v.Version, v.Commit, v.Date, v.Go)
}
