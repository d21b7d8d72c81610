package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A release has the chart of its own version, which runs the image of that version, and no other.
func TestAReleaseHasItsOwnChart(t *testing.T) {
	copied := t.TempDir()
	if err := os.CopyFS(filepath.Join(copied, chartDir), os.DirFS(filepath.Join(root, chartDir))); err != nil {
		t.Fatal(err)
	}
	if err := checkVersion(copied, "7.8.9"); err == nil || !strings.Contains(err.Error(), "make version VERSION=7.8.9") {
		t.Fatalf("a chart of another version was accepted: %v", err)
	}
	if err := setVersion(copied, "7.8.9"); err != nil {
		t.Fatal(err)
	}
	if err := checkVersion(copied, "7.8.9"); err != nil {
		t.Fatal(err)
	}
	rendered, err := render(copied, plain)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(rendered["publisher.yaml"], "ghcr.io/outboxctl/outboxctl:7.8.9") {
		t.Error("the publisher does not run the image of the release")
	}
}
