package deploy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/deploy"
)

// settings are values of the chart that a test gives as YAML.
func settings(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func rendered(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	text, err := deploy.Bundle(deploy.Namespace, settings(t, values))
	if err != nil {
		t.Fatal(err)
	}
	return objectsOf(t, []byte(text))
}

// byName makes what two builds have comparable.
func byName(t *testing.T, objects []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, o := range objects {
		name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		if _, twice := all[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		// Numbers are read as other types by kustomize.
		raw, err := o.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		same := &unstructured.Unstructured{}
		if err := same.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		all[name] = same.Object
	}
	return all
}

func TestTheChartAndTheBaseAreTheSame(t *testing.T) {
	base, err := buildBase()
	if err != nil {
		t.Fatal(err)
	}
	chart := rendered(t, "crds: {enabled: false}")
	if len(base) < 15 {
		t.Errorf("the base has %d objects only", len(base))
	}
	if diff := cmp.Diff(byName(t, base), byName(t, chart)); diff != "" {
		t.Errorf("run make generate: the base and the chart differ (-base +chart):\n%s", diff)
	}
}

func TestTheChartHasTheCRDsAndKeepsThem(t *testing.T) {
	paths, err := filepath.Glob("crd/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	shipped := byName(t, rendered(t, ""))
	for _, path := range paths {
		crd := readObjects(t, path)[0]
		annotations := crd.GetAnnotations()
		annotations["helm.sh/resource-policy"] = "keep"
		crd.SetAnnotations(annotations)
		for name, want := range byName(t, []*unstructured.Unstructured{crd}) {
			if diff := cmp.Diff(want, shipped[name]); diff != "" {
				t.Errorf("run make generate: %s of the chart is another one (-crd +chart):\n%s", name, diff)
			}
		}
	}
	copies, err := filepath.Glob("chart/crd/*.yaml")
	if err != nil || len(copies) != len(paths) {
		t.Errorf("the chart has %d CRDs, and there are %d: %v", len(copies), len(paths), err)
	}
}

// everything sets each value that is not set by itself.
const everything = `
image: convoy@sha256:` + "0123456789012345678901234567890123456789012345678901234567890123" + `
imagePullSecrets: [{name: pull}]
temporal:
  apiKeySecret: {name: temporal-key, key: token}
  deployment: {name: convoy, buildID: b7}
  tls: {enabled: true, serverName: temporal, caSecret: {name: temporal-ca}, clientSecret: {name: temporal-client}}
extraArgs: [--deny-addresses=10.0.0.0/8]
watcher: {extraArgs: [--resync-period=5m], webhooks: {enabled: true}}
podAnnotations: {prometheus.io/scrape: "true"}
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: infra, operator: Exists}]
affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}
priorityClassName: system-cluster-critical
extraEnv: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://collector.traces.svc:4318"}, {name: KEY, valueFrom: {secretKeyRef: {name: traces, key: key}}}]
`

// A field that the API server does not know is refused, and not dropped: the API server would do that with a slip of the pen.
func TestAnAPIServerTakesTheChartWithWhateverValues(t *testing.T) {
	strict := client.WithFieldValidation(hub, "Strict")
	for name, values := range map[string]string{
		"its own": "", "everything": everything, "nothing that can be left out": "networkPolicy: {enabled: false}\ncrds: {enabled: false}",
	} {
		t.Run(name, func(t *testing.T) {
			for _, o := range rendered(t, values) {
				err := strict.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner("chart"), client.ForceOwnership, client.DryRunAll)
				if err != nil {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
}

func TestTheOperatorOfPrometheusIsToldWhenItIsThere(t *testing.T) {
	const values = `
crds: {enabled: false}
metrics:
  podMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}}
  prometheusRule: {enabled: true, labels: {release: prometheus}}
`
	objects := byName(t, rendered(t, values))
	without := byName(t, rendered(t, "crds: {enabled: false}"))
	if len(objects) != len(without)+2 {
		t.Errorf("%d objects, and without the operator %d", len(objects), len(without))
	}
	name := " " + deploy.Namespace + "/convoy"
	monitor := unstructured.Unstructured{Object: objects["PodMonitor"+name]}
	ends, _, err := unstructured.NestedSlice(monitor.Object, "spec", "podMetricsEndpoints")
	want := []any{map[string]any{"port": "metrics", "interval": "15s", "honorLabels": true}}
	if diff := cmp.Diff(want, ends); err != nil || diff != "" || monitor.GetLabels()["release"] != "prometheus" {
		t.Errorf("the PodMonitor has %v, %v; (-want +got):\n%s", monitor.GetLabels(), err, diff)
	}
	rule := unstructured.Unstructured{Object: objects["PrometheusRule"+name]}
	text, err := os.ReadFile("monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	alerts := settings(t, string(text))
	if diff := cmp.Diff(alerts, rule.Object["spec"]); diff != "" || rule.GetLabels()["release"] != "prometheus" {
		t.Errorf("run make generate: the PrometheusRule has %v, and not the alerts (-want +got):\n%s", rule.GetLabels(), diff)
	}
}

func TestValuesOfTheChartThatMakeNoSenseAreRefusedByName(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 3":                                                          "'replicas' not allowed",
		"worker: {webhooks: {enabled: true}}":                                  "'webhooks' not allowed",
		"worker: {replicas: -1}":                                               "/worker/replicas",
		"extraArgs: [verbose]":                                                 "/extraArgs/0",
		"temporal: {address: temporal}":                                        "/temporal/address",
		"temporal: {namespace: ''}":                                            "/temporal/namespace",
		"temporal: {tls: {caSecret: {name: temporal-ca}}}":                     "set temporal.tls.enabled",
		"temporal: {deployment: {buildID: v1}}":                                "temporal.deployment.name is not",
		"temporal: {deployment: {name: a.b}}":                                  "/temporal/deployment/name",
		"temporal: {deployment: {name: convoy}}":                               "temporal.deployment: the tag of the image convoy:latest does not tell builds apart",
		"{image: 'local:5000/convoy', temporal: {deployment: {name: convoy}}}": "set temporal.deployment.buildID",
		"metrics: {podMonitor: {interval: often}}":                             "/metrics/podMonitor/interval",
		"extraEnv: [{value: nameless}]":                                        "/extraEnv/0",
	} {
		_, err := deploy.Render(deploy.Namespace, settings(t, values))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", values, err, want)
		}
	}
}

func TestWorkersAreAVersionOfADeploymentWhenItHasAName(t *testing.T) {
	for values, want := range map[string]string{
		"image: convoy:v1": "",
		"{image: 'local:5000/convoy:v1', temporal: {deployment: {name: convoy}}}":                            "convoy v1",
		"{image: 'convoy@sha256:0123abc', temporal: {deployment: {name: convoy}}}":                           "convoy 0123abc",
		"{image: 'convoy:latest', temporal: {deployment: {name: convoy, buildID: b7}}}":                      "convoy b7",
		"{image: 'convoy:v1', temporal: {deployment: {name: convoy, buildID: '7'}}, worker: {replicas: 20}}": "convoy 7",
	} {
		for _, o := range rendered(t, values) {
			if o.GetKind() != "Deployment" {
				continue
			}
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if err != nil {
				t.Fatal(err)
			}
			var is []string
			for _, v := range containers[0].(map[string]any)["env"].([]any) {
				v := v.(map[string]any)
				if v["name"] == "TEMPORAL_DEPLOYMENT_NAME" || v["name"] == "TEMPORAL_WORKER_BUILD_ID" {
					is = append(is, v["value"].(string))
				}
			}
			want := want
			if o.GetName() == "convoy-watcher" {
				want = ""
			}
			if got := strings.Join(is, " "); got != want {
				t.Errorf("%s: %s is %q, want %q", values, o.GetName(), got, want)
			}
		}
	}
}

func TestTheNamespaceIsTheOneThatIsAskedFor(t *testing.T) {
	text, err := deploy.Bundle("delivery", nil)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, deploy.Namespace) {
		t.Error("something is still about " + deploy.Namespace)
	}
	for _, o := range objectsOf(t, []byte(text)) {
		if ns := o.GetNamespace(); ns != "" && ns != "delivery" || o.GetKind() == "Namespace" && o.GetName() != "delivery" {
			t.Errorf("%s %s is in namespace %q", o.GetKind(), o.GetName(), ns)
		}
	}
}

// Comments are generated too, which a comparison of objects does not see.
func TestTheBaseIsWrittenFromTheChart(t *testing.T) {
	manifests, err := deploy.Render(deploy.Namespace, settings(t, "crds: {enabled: false}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		is, err := os.ReadFile(filepath.Join("base", m.Name))
		if err != nil || !bytes.HasSuffix(is, []byte(m.Text)) {
			t.Errorf("run make generate: base/%s is not what the chart has: %v", m.Name, err)
		}
	}
}
