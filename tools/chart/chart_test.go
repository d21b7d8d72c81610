package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const root = "../.."

// sets are values that people use, from the fewest to everything at once.
var sets = map[string]string{
	"fewest": "existingSecret: outbox",
	"plain":  plain,
	"everything": `
existingSecret: outbox
image: {tag: v9.9.9, pullPolicy: Always}
imagePullSecrets: [{name: registry}]
config: {pubsub: {project: acme}, log: {level: debug}}
catalogue: |
  version: 1
  types: {}
serviceAccount: {create: false, name: theirs}
publisher:
  replicas: 4
  args: [--workers, "4"]
  env: [{name: OUTBOXCTL_LOG_LEVEL, value: debug}]
  nodeSelector: {pool: jobs}
  tolerations: [{key: jobs, operator: Exists}]
  affinity: {nodeAffinity: {}}
  podAnnotations: {team: shop}
  autoscaling: {kind: keda, minReplicas: 1, maxReplicas: 8, target: 500}
migrate: {args: [--lock-timeout, 5s], serviceAccountName: deployer, resources: {limits: {memory: 128Mi}}}
ui:
  enabled: true
  publicURL: https://outbox.example.com/ops
  auth: jwt
  args: [--allow-changes]
  ingress: {enabled: true, className: nginx, annotations: {a: b}, tlsSecret: outbox-tls}
consumers:
  - {name: mailer, args: [--http, "http://mailer:8000/events", --type, order.ready], replicas: 3}
  - {name: search, args: [--exec, "python3 index.py"]}
networkPolicy: {enabled: true, from: [{namespaceSelector: {}}]}
monitoring: {podMonitor: true, rules: true, labels: {release: prometheus}}
`,
	"many databases": `
existingSecret: unused
publisher: {replicas: 3}
databases:
  - {name: shop, existingSecret: shop-secret}
  - name: billing
    existingSecret: billing-secret
    publisher: {replicas: 1}
    catalogue: "version: 1"
    consumers: [{name: mailer, args: [--exec, "true"]}]
    ui: {enabled: true, publicURL: "https://billing.example.com"}
monitoring: {podMonitor: true, rules: true}
networkPolicy: {enabled: true}
`,
	"by a metric": "existingSecret: outbox\npublisher: {autoscaling: {kind: hpa}}",
	"publishers only": "existingSecret: outbox\nmigrate: {enabled: false}\ncleanup: {enabled: false}\n" +
		"publisher: {replicas: 1}",
}

// objects decodes what the chart renders, strictly: a field that Kubernetes does not have is an error.
func objects(t *testing.T, values string) []runtime.Object {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, monitoring.AddToScheme, addScaledObject} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	decoder := serializer.NewCodecFactory(known, serializer.EnableStrict).UniversalDeserializer()
	files, err := render(root, values)
	if err != nil {
		t.Fatal(err)
	}
	var all []runtime.Object
	for name, text := range files {
		if name == "NOTES.txt" {
			continue
		}
		for _, doc := range strings.Split("\n"+text, "\n---") {
			var content map[string]any
			if err := yaml.Unmarshal([]byte(doc), &content); err == nil && content == nil {
				continue
			}
			object, _, err := decoder.Decode([]byte(doc), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			all = append(all, object)
		}
	}
	return all
}

// The part of KEDA's type that we write: its module would bring a hundred others.
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef struct {
			Name string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicaCount int32 `json:"minReplicaCount"`
		MaxReplicaCount int32 `json:"maxReplicaCount"`
		Triggers        []struct {
			Type     string            `json:"type"`
			Metadata map[string]string `json:"metadata"`
		} `json:"triggers"`
	} `json:"spec"`
}

func (s *scaledObject) DeepCopyObject() runtime.Object { c := *s; return &c }

func addScaledObject(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}, &scaledObject{})
	return nil
}

func podOf(object runtime.Object) (corev1.PodTemplateSpec, bool) {
	switch o := object.(type) {
	case *appsv1.Deployment:
		return o.Spec.Template, true
	case *batchv1.Job:
		return o.Spec.Template, true
	case *batchv1.CronJob:
		return o.Spec.JobTemplate.Spec.Template, true
	}
	return corev1.PodTemplateSpec{}, false
}

func TestEveryObjectIsOneKubernetesKnows(t *testing.T) {
	kinds := map[string]bool{}
	for name, values := range sets {
		t.Run(name, func(t *testing.T) {
			for _, object := range objects(t, values) {
				kinds[object.GetObjectKind().GroupVersionKind().Kind] = true
			}
		})
	}
	for _, kind := range []string{
		"ConfigMap", "CronJob", "Deployment", "HorizontalPodAutoscaler", "Ingress", "Job", "NetworkPolicy", "PodDisruptionBudget",
		"PodMonitor", "PrometheusRule", "ScaledObject", "Service", "ServiceAccount",
	} {
		if !kinds[kind] {
			t.Errorf("no values render a %s", kind)
		}
	}
}

// What a pod mounts or runs as is in the release, or was there before it.
func TestPodsFindWhatTheyName(t *testing.T) {
	for name, values := range sets {
		t.Run(name, func(t *testing.T) {
			all := objects(t, values)
			configs, accounts := map[string]map[string]string{}, []string{"", "default", "theirs", "deployer"}
			for _, object := range all {
				switch o := object.(type) {
				case *corev1.ConfigMap:
					configs[o.Name] = o.Annotations
				case *corev1.ServiceAccount:
					accounts = append(accounts, o.Name)
				}
			}
			for _, object := range all {
				pod, ok := podOf(object)
				if !ok {
					continue
				}
				if !slices.Contains(accounts, pod.Spec.ServiceAccountName) {
					t.Errorf("no account %q", pod.Spec.ServiceAccountName)
				}
				hook := object.(metav1.Object).GetAnnotations()["helm.sh/hook"]
				for _, volume := range pod.Spec.Volumes {
					annotations, ok := configs[volume.ConfigMap.Name]
					if !ok || annotations["helm.sh/hook"] != hook {
						t.Errorf("%s: ConfigMap %s is not there when its pod starts", object.GetObjectKind().GroupVersionKind().Kind, volume.ConfigMap.Name)
					}
				}
			}
		})
	}
}

// A selector that finds no pod, or those of another part, is silent in a cluster.
func TestSelectorsFindTheirOwnPods(t *testing.T) {
	all := objects(t, sets["everything"])
	matching := func(selector *metav1.LabelSelector) (names []string) {
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range all {
			if pod, ok := podOf(object); ok && s.Matches(labelSet(pod.Labels)) {
				names = append(names, pod.Labels["app.kubernetes.io/component"])
			}
		}
		slices.Sort(names)
		return names
	}
	for _, object := range all {
		var got, want []string
		switch o := object.(type) {
		case *appsv1.Deployment:
			got, want = matching(o.Spec.Selector), []string{o.Labels["app.kubernetes.io/component"]}
		case *policyv1.PodDisruptionBudget:
			got, want = matching(o.Spec.Selector), []string{strings.TrimPrefix(o.Name, "outboxctl-")}
		case *corev1.Service:
			got, want = matching(&metav1.LabelSelector{MatchLabels: o.Spec.Selector}), []string{"ui"}
		case *networkingv1.NetworkPolicy:
			got, want = matching(&o.Spec.PodSelector), []string{"cleanup", "consumer-mailer", "consumer-search", "migrate", "publisher", "ui"}
		case *monitoring.PodMonitor:
			got, want = matching(&o.Spec.Selector), []string{"consumer-mailer", "consumer-search", "publisher"}
		default:
			continue
		}
		if !slices.Equal(got, want) {
			t.Errorf("%T selects %v, not %v", object, got, want)
		}
	}
}

type labelSet map[string]string

func (l labelSet) Has(label string) bool              { _, ok := l[label]; return ok }
func (l labelSet) Get(label string) string            { return l[label] }
func (l labelSet) Lookup(label string) (string, bool) { v, ok := l[label]; return v, ok }

// Every command line is one that our own binary understands: it answers with its help, which
// comes after the flags were read.
func TestCommandLinesAreUnderstood(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "outboxctl")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir, build.Env = root, append(os.Environ(), "GOWORK=", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seen := map[string]bool{}
	for _, values := range sets {
		for _, object := range objects(t, values) {
			pod, ok := podOf(object)
			if !ok {
				continue
			}
			args := append(slices.Clone(pod.Spec.Containers[0].Args), "--help")
			seen[args[0]] = true
			if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
				t.Errorf("outboxctl %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
	}
	for _, command := range []string{"publish", "migrate", "cleanup", "ui", "consume"} {
		if !seen[command] {
			t.Errorf("no pod runs %s", command)
		}
	}
	if err := exec.Command(binary, "publish", "--no-such-flag", "--help").Run(); err == nil {
		t.Error("an unknown flag is understood: this test proves nothing")
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ values, want string }{
		"no secret":              {"{}", "existingSecret is required"},
		"a page without address": {"existingSecret: s\nui: {enabled: true}", "ui.publicURL is required"},
		"a misspelled key":       {"existingSecret: s\npublisher: {replica: 3}", "replica"},
		"a word for a number":    {"existingSecret: s\npublisher: {replicas: many}", "replicas"},
		"an unknown scaler":      {"existingSecret: s\npublisher: {autoscaling: {kind: magic}}", "kind"},
		"a nameless consumer":    {"existingSecret: s\nconsumers: [{args: [--example]}]", "name"},
		"contexts":               {"existingSecret: s\nconfig: {contexts: {shop: {database: {url: x}}}}", "contexts"},
		"a URL in the ConfigMap": {"existingSecret: s\nconfig: {database: {url: x}}", "url"},
		"one of its databases":   {"databases: [{name: a, existingSecret: s, config: {redis: {url: x}}}]", "url"},
		"a shared Secret":        {"existingSecret: s\ndatabases: [{name: a}]", "existingSecret"},
		"a name that is cut":     {"databases: [{name: a2345678901234567890123456789012, existingSecret: s}]", "longer than 40"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := render(root, c.values)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %q", err, c.want)
			}
		})
	}
}

func TestTheChartPassesHelmsLinter(t *testing.T) {
	dir, err := filepath.Abs(filepath.Join(root, "deploy/helm/outboxctl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range lint.RunAll(dir, map[string]any{"existingSecret": "s"}, "shop").Messages {
		if message.Severity > 1 { // an icon is recommended
			t.Error(message)
		}
	}
}

// Each of many databases has its own publishers with its own Secret, and no object of one stands in for another's.
func TestManyDatabasesShareNothing(t *testing.T) {
	secrets, seen := map[string]string{}, map[string]bool{}
	for _, object := range objects(t, sets["many databases"]) {
		meta, err := apimeta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		id := object.GetObjectKind().GroupVersionKind().Kind + " " + meta.GetName()
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		if pod, ok := podOf(object); ok {
			secrets[meta.GetName()] = pod.Spec.Containers[0].EnvFrom[0].SecretRef.Name
		}
		if d, ok := object.(*appsv1.Deployment); ok && strings.HasSuffix(d.Name, "-publisher") {
			if want := map[string]int32{"shop": 3, "billing": 1}[strings.Split(d.Name, "-")[1]]; *d.Spec.Replicas != want {
				t.Errorf("%s has %d replicas, not %d", d.Name, *d.Spec.Replicas, want)
			}
		}
	}
	want := map[string]string{}
	for _, name := range []string{"shop", "billing"} {
		for _, of := range []string{"publisher", "cleanup", "migrate"} {
			want["outboxctl-"+name+"-"+of] = name + "-secret"
		}
	}
	want["outboxctl-billing-ui"], want["outboxctl-billing-consumer-mailer"] = "billing-secret", "billing-secret"
	if !maps.Equal(want, secrets) {
		t.Errorf("pods and their Secrets: %v, not %v", secrets, want)
	}
}

func TestPlainManifestsAreCurrent(t *testing.T) {
	files, err := manifests(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(root, "deploy", name)); err != nil || string(got) != want {
			t.Errorf("deploy/%s is not what the chart renders: run make generate (%v)", name, err)
		}
	}
}
