// Command chart renders deploy/helm/outboxctl into the plain manifests of deploy/kubernetes and
// the rules of deploy/prometheus, so that they cannot differ from the chart. With -set it gives the
// chart a version first, with -check it refuses a chart of another version. It is a module of its
// own: Helm decides no version of what is shipped.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/yaml"
)

// plain are the values behind deploy/kubernetes.
const plain = `
existingSecret: outboxctl
config: {pubsub: {project: PROJECT}}
serviceAccount: {annotations: {iam.gke.io/gcp-service-account: outboxctl@PROJECT.iam.gserviceaccount.com}}
migrate: {hook: false}
`

const head = "# Rendered from deploy/helm/outboxctl by make generate. %s\n"

// note is what a plain manifest says first.
func note(name string) string {
	return map[string]string{
		"account.yaml": "Replace PROJECT. Apply it first.",
		"config.yaml":  "Replace PROJECT. Secrets do not belong here.",
		"publisher.yaml": "Secrets come from a Secret of yours:\n" +
			"# kubectl create secret generic outboxctl --from-literal=OUTBOXCTL_DATABASE_URL=postgres://…",
		"migrate.yaml": "Before each release: kubectl create -f migrate.yaml",
		"cleanup.yaml": "Retention, every night.",
	}[name]
}

func main() {
	set := flag.String("set", "", "give the chart and its image this version")
	release := flag.String("check", "", "fail unless chart and image have this version")
	flag.Parse()
	root := cmp.Or(flag.Arg(0), "../..")
	var err error
	switch {
	case *release != "":
		err = checkVersion(root, *release)
	case *set != "":
		if err = setVersion(root, *set); err == nil {
			err = generate(root)
		}
	default:
		err = generate(root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(root string) error {
	files, err := manifests(root)
	if err != nil {
		return err
	}
	return write(root, files)
}

func write(root string, files map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		target := filepath.Join(root, "deploy", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, []byte(files[name]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manifests are the files below deploy that come from the chart.
func manifests(root string) (map[string]string, error) {
	rendered, err := render(root, plain)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for name, text := range rendered {
		if note := note(name); note != "" {
			files["kubernetes/"+name] = fmt.Sprintf(head, note) + withoutHelm(text)
		}
	}
	rules, err := os.ReadFile(filepath.Join(root, chartDir, "alerts.yaml"))
	if err != nil {
		return nil, err
	}
	files["prometheus/alerts.yaml"] = "# A copy of deploy/helm/outboxctl/alerts.yaml, made by make generate.\n" + string(rules)
	return files, nil
}

// withoutHelm removes the labels that only mean something to Helm.
func withoutHelm(text string) string {
	var kept []string
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		label := strings.TrimSpace(line)
		if !strings.HasPrefix(label, "helm.sh/chart:") &&
			!strings.HasPrefix(label, "app.kubernetes.io/managed-by:") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// render is what helm template prints with these values, by the template's file name.
func render(root, values string) (map[string]string, error) {
	c, err := loader.Load(filepath.Join(root, chartDir))
	if err != nil {
		return nil, err
	}
	var set map[string]any
	if err := yaml.Unmarshal([]byte(values), &set); err != nil {
		return nil, err
	}
	options := common.ReleaseOptions{Name: "outboxctl", Namespace: "shop", Revision: 1,
		IsInstall: true}
	all, err := util.ToRenderValues(c, set, options, nil)
	if err != nil {
		return nil, err
	}
	out, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for name, text := range out {
		if strings.TrimSpace(text) != "" && !strings.HasSuffix(name, ".tpl") {
			files[path.Base(name)] = text
		}
	}
	return files, nil
}
