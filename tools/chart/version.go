package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

const chartDir = "deploy/helm/outboxctl"

// setVersion makes a version that of the chart and of the image it runs.
func setVersion(root, version string) error {
	file := filepath.Join(root, chartDir, "Chart.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	line := regexp.MustCompile(`(?m)^(version|appVersion): .*$`)
	return os.WriteFile(file, line.ReplaceAll(text, []byte("${1}: "+version)), 0o644)
}

// checkVersion refuses a chart of another version than the release's, or one that would run the
// image of another.
func checkVersion(root, version string) error {
	c, err := loader.Load(filepath.Join(root, chartDir))
	if err != nil {
		return err
	}
	if c.Metadata.Version != version || c.Metadata.AppVersion != version {
		return fmt.Errorf("the chart is %s for the image %s, the release is %s: run make version VERSION=%[3]s and commit it before the tag",
			c.Metadata.Version, c.Metadata.AppVersion, version)
	}
	return nil
}
