package apply

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestPortsOfOneNumberAndTwoProtocolsAreTwoPorts(t *testing.T) {
	w := newWorld(t)
	dns := func(ports string) *unstructured.Unstructured {
		return w.fromYAML("{apiVersion: v1, kind: Service, metadata: {name: dns, namespace: $NS}, spec: {selector: {app: dns}, ports: [" + ports + "]}}")
	}
	const tcp, udp = "{name: tcp, port: 53, protocol: TCP}", "{name: udp, port: 53, protocol: UDP}"
	for _, step := range []struct {
		ports string
		want  []string
	}{
		{tcp, []string{"TCP"}}, {tcp + ", " + udp, []string{"TCP", "UDP"}}, {udp, []string{"UDP"}},
	} {
		w.applied(dns(step.ports))
		var got []string
		ports, _, _ := unstructured.NestedSlice(w.live(dns(tcp)).Object, "spec", "ports")
		for _, p := range ports {
			port, _ := p.(map[string]any)
			protocol, _ := port["protocol"].(string)
			got = append(got, protocol)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("after %s: %s", step.ports, diff)
		}
	}
}

func TestAListWithTheSameKeyTwiceIsTheSameErrorOnAnUpdate(t *testing.T) {
	w := newWorld(t)
	with := func(field string) *unstructured.Unstructured {
		o := w.deployment("web")
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		container, _ := containers[0].(map[string]any)
		maps.Copy(container, w.fromYAML(field).Object)
		w.check(unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers"))
		return o
	}
	w.applied(with("env: [{name: A, value: '1'}]"))
	for _, field := range []string{
		"env: [{name: A, value: '1'}, {name: A, value: '2'}]", "ports: [{containerPort: 80}, {containerPort: 80, name: again}]",
	} {
		only(t, w.apply(with(field)).Failed, "web", "duplicate entries for key", true)
	}
}

func TestLargeObjectsAreAppliedWithoutACopyOfThemselves(t *testing.T) {
	w := newWorld(t)
	big := w.configMap("big", map[string]string{"a": strings.Repeat("x", 700<<10)})
	crd := w.definition("v1")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	w.check(unstructured.SetNestedField(version, strings.Repeat("long ", 120<<10), "schema", "openAPIV3Schema", "description"))
	w.check(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	w.applied(big, crd)
	for _, o := range []*unstructured.Unstructured{big, crd} {
		if a := w.live(o).GetAnnotations(); len(a) != 1 || a[v1alpha1.AnnotationRelease] == "" {
			t.Errorf("%s has %d annotations", o.GetName(), len(a))
		}
	}
}

func TestAPruneEndsWhenTheDefinitionOfAKindIsGoneAlready(t *testing.T) {
	w := newWorld(t)
	crd, cfg, gone := w.definition("v1"), w.configMap("cfg", nil), w.configMap("gone", nil)
	w.applied(crd, w.widget("v1", "w"), cfg, gone)
	w.remove(crd)
	w.eventually("the definition is gone", func() bool { return w.live(crd) == nil })
	w.applied(cfg)
	if out := w.prune(cfg); !out.Done() || w.live(gone) != nil {
		t.Errorf("got %+v", out)
	}
	if diff := cmp.Diff([]string{"ConfigMap/cfg"}, names(w.record().Entries())); diff != "" {
		t.Error(diff)
	}
}

func TestATakeOverOfManyObjectsIsThreeRequestsForEach(t *testing.T) {
	w := newWorld(t)
	objects := []*unstructured.Unstructured{w.configMap("a", nil), w.configMap("b", nil), w.configMap("c", nil)}
	for _, o := range objects {
		w.create(o)
	}
	w.applied(objects...)
	lines := w.targetLog.take()
	if count(lines, "PATCH ") != 6 || count(lines, "GET ") != 3 || len(lines) != 9 {
		t.Errorf("requests: %v", lines)
	}
	w.applied(objects...)
	if lines := w.targetLog.take(); count(lines, "PATCH ") != 3 || len(lines) != 3 {
		t.Errorf("requests afterwards: %v", lines)
	}
}
