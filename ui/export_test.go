package ui

import (
	"slices"
	"strings"
)

// APIPaths are the addresses of the API, below /api/v1.
func APIPaths() []string {
	var paths []string
	for _, r := range (&Handler{}).table() {
		if path, ok := strings.CutPrefix(r.path, "/api/v1"); ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
