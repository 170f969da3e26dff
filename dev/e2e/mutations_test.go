package e2e

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// configMaps is a target of mutations.
var configMaps = v1alpha1.MutationTarget{Kind: "ConfigMap"}

// mutations gives a Release its mutations.
func mutations(all ...v1alpha1.Mutation) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) { r.Spec.Mutations = all }
}

// regional is a Cluster's metadata.
func regional(region string) func(*v1alpha1.Cluster) {
	return func(c *v1alpha1.Cluster) {
		c.Spec.Metadata = map[string]v1alpha1.MetadataValue{"region": v1alpha1.MetadataValue(region), "topology.kubernetes.io/zone": "a"}
	}
}

func TestExpressionsReadTheMetadataOfTheClusterAndAChangeOfItWaitsForTheNextReconcile(t *testing.T) {
	s := newScene(t)
	cluster := s.readyCluster("prod", alpha, regional("eu-1"))
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting", mutations(
		v1alpha1.Mutation{
			Name: "zone", Target: configMaps, When: "'topology.kubernetes.io/zone' in cluster",
			CEL: "Object{data: Object.data{text: object.data.text + ' from ' + cluster.region + cluster['topology.kubernetes.io/zone']}}",
		},
		v1alpha1.Mutation{Name: "west", Target: configMaps, When: "cluster.?region.orValue('').startsWith('us-')", CEL: "[JSONPatch{op: 'replace', path: '/data/text', value: 'howdy'}]"},
		v1alpha1.Mutation{Name: "strategic", Target: configMaps, Patch: v1alpha1.Patch{Type: v1alpha1.PatchStrategic, Template: "data: {release: '{{ .release.name }}'}"}},
		v1alpha1.Mutation{Name: "nothing", Target: v1alpha1.MutationTarget{LabelSelector: "app=nothing"}, CEL: "Object{}"},
	))
	before := s.awaitDelivered("app")
	if got := s.text(alpha, "greeting"); got != "hello from eu-1a" {
		t.Errorf("text is %q", got)
	}
	want := []v1alpha1.MutationStatus{{Name: "zone", Matched: 1}, {Name: "west", Matched: 1, Skipped: v1alpha1.SkippedByWhen}, {Name: "strategic", Matched: 1}, {Name: "nothing"}}
	if !equalStatus(before.Status.Mutations, want) {
		t.Errorf("status.mutations is %v", before.Status.Mutations)
	}
	s.request("app") // so that nothing is left to do
	length := len(s.settled(s.releaseWorkflow("app")))

	change(s, cluster, regional("us-1"))
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	s.greeting("marker", "hello")
	s.release("marker", "prod", "marker")
	s.awaitDelivered("marker")
	if now := s.history(s.releaseWorkflow("app")); len(now) != length {
		t.Errorf("with the change of the metadata, the history went from %d to %d events", length, len(now))
	}
	if got := s.text(alpha, "greeting"); got != "hello from eu-1a" {
		t.Errorf("without a reconcile, text became %q", got)
	}
	s.request("app")
	after := s.awaitDelivered("app")
	if got := s.text(alpha, "greeting"); got != "howdy" {
		t.Errorf("after the reconcile, text is %q", got)
	}
	if after.Status.RenderRef.Digest == before.Status.RenderRef.Digest || after.Status.Rollout.Number != before.Status.Rollout.Number+1 {
		t.Errorf("renderRef went from %v to %v, the rollout from %d to %d", before.Status.RenderRef, after.Status.RenderRef, before.Status.Rollout.Number, after.Status.Rollout.Number)
	}
}

func equalStatus(got, want []v1alpha1.MutationStatus) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if got[i] != want[i] {
			return false
		}
	}
	return true
}

func TestPatchesOfConfigMapsSecretsAndTheSourceAreApplied(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha, regional("eu-1"))
	s.configMap("source", map[string]string{"greeting.yaml": manifest("greeting", "hello"), ".prod": "data: {source: yes please}"})
	overrides := s.configMap("over-eu-1", map[string]string{"patch.yaml": "data: {text: one}", "other": "1"})
	s.secret("private", map[string]string{"patch": `[{"op": "add", "path": "/data/private", "value": "` + manifestSentinel + `"}]`})
	from := func(name string, source v1alpha1.PatchSource) v1alpha1.Mutation {
		return v1alpha1.Mutation{Name: name, Target: configMaps, From: &source}
	}
	s.release("app", "prod", "source", mutations(
		from("overrides", v1alpha1.PatchSource{Kind: v1alpha1.PatchFromConfigMap, Name: "over-{{ .cluster.region }}", Path: "patch.yaml"}),
		from("private", v1alpha1.PatchSource{Kind: v1alpha1.PatchFromSecret, Name: "private", Path: "patch", Type: v1alpha1.PatchJSON6902}),
		from("file", v1alpha1.PatchSource{Kind: v1alpha1.PatchFromSource, Path: ".{{ .cluster.name }}"}),
		from("later", v1alpha1.PatchSource{Kind: v1alpha1.PatchFromConfigMap, Name: "later", Path: "patch", Optional: true}),
	))
	before := s.awaitDelivered("app")
	var cm corev1.ConfigMap
	s.must(s.on(alpha).Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: "greeting"}, &cm))
	if cm.Data["text"] != "one" || cm.Data["private"] != manifestSentinel || cm.Data["source"] != "yes please" {
		t.Errorf("data are %v", cm.Data)
	}
	if got := before.Status.Mutations[3].Skipped; got != v1alpha1.SkippedAsMissing {
		t.Errorf("a patch that does not exist is shown as %q", got)
	}

	s.reconcile("app") // so that nothing is left to do
	s.awaitIdle("app")
	first := len(s.history(s.releaseWorkflow("app")))
	writes := len(s.hubWrites())
	change(s, overrides, func(cm *corev1.ConfigMap) { cm.Data["other"] = "2" })
	s.reconcile("app")
	s.awaitIdle("app")
	if n := scheduled(s.history(s.releaseWorkflow("app"))[first:]); n["RenderRelease"] != 0 || n[delivery.WorkflowRollout] != 0 {
		t.Errorf("an entry that nobody reads led to %v", n)
	}
	if got := len(s.hubWrites()); got != writes {
		t.Errorf("a reconcile without a change made %d writes to the hub", got-writes)
	}

	change(s, overrides, func(cm *corev1.ConfigMap) { cm.Data["patch.yaml"] = "data: {text: two}" })
	s.awaitText(time.Minute, s.on(alpha), "greeting", "two")
	s.configMap("later", map[string]string{"patch": "data: {text: three}"})
	s.awaitText(time.Minute, s.on(alpha), "greeting", "three")
}

func TestMutationsThatFailLeaveWhatWasAppliedAndNameWhatIsMissing(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha, regional("eu-1"))
	s.greeting("greeting", "hello")
	s.greeting("calm", "hello")
	r := s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	evil := "lists.range(9999).all(a, lists.range(9999).all(b, a + b >= 0))"
	for _, tc := range []struct {
		mutation v1alpha1.Mutation
		says     string
	}{
		{v1alpha1.Mutation{Name: "m", Target: configMaps, CEL: "Object{data: Object.data{text: cluster.nope}}"}, `mutation m, ConfigMap greeting: the key "nope" does not exist`},
		{v1alpha1.Mutation{Name: "m", Target: configMaps, When: evil, CEL: "Object{}"}, "mutation m: when: the expression"},
		{v1alpha1.Mutation{Name: "m", Target: v1alpha1.MutationTarget{Kind: "Pod"}, Required: true, CEL: "Object{}"}, "mutation m: it is required"},
		{v1alpha1.Mutation{Name: "m", Target: configMaps, From: &v1alpha1.PatchSource{Kind: v1alpha1.PatchFromConfigMap, Name: "nope", Path: "k"}}, "mutation m: key k of ConfigMap nope does not exist"},
		{v1alpha1.Mutation{Name: "m", Target: configMaps, From: &v1alpha1.PatchSource{Kind: v1alpha1.PatchFromSecret, Name: "prod-kubeconfig", Path: "kubeconfig"}}, "Secret prod-kubeconfig belongs to Cluster prod"},
	} {
		change(s, r, mutations(tc.mutation))
		got := s.awaitRelease("app", v1alpha1.ConditionRendered, metav1.ConditionFalse, v1alpha1.ReasonRenderFailed)
		for _, c := range got.Status.Conditions {
			if c.Type == v1alpha1.ConditionRendered && !strings.Contains(c.Message, tc.says) {
				t.Errorf("the message is %q, want %q in it", c.Message, tc.says)
			}
		}
		if got := s.text(alpha, "greeting"); got != "hello" {
			t.Errorf("text became %q", got)
		}
	}
	s.release("calm", "prod", "calm") // other work goes on
	s.awaitDelivered("calm")
	change(s, r, mutations())
	s.awaitDelivered("app")
}

func TestTheSchemaRefusesMutationsThatSayTooMuchOrTooLittle(t *testing.T) {
	s := newScene(t)
	patch := v1alpha1.Patch{Type: v1alpha1.PatchMerge, Template: "a: b"}
	for name, m := range map[string]v1alpha1.Mutation{
		"nothing":             {Name: "m"},
		"two changes":         {Name: "m", Patch: patch, CEL: "Object{}"},
		"a long expression":   {Name: "m", CEL: strings.Repeat("x", 9<<10)},
		"a ConfigMap unnamed": {Name: "m", From: &v1alpha1.PatchSource{Kind: v1alpha1.PatchFromConfigMap, Path: "k"}},
		"a source with name":  {Name: "m", From: &v1alpha1.PatchSource{Kind: v1alpha1.PatchFromSource, Name: "n", Path: "k"}},
		"another type":        {Name: "m", From: &v1alpha1.PatchSource{Kind: v1alpha1.PatchFromSource, Path: "k", Type: "Other"}},
	} {
		r := &v1alpha1.Release{ObjectMeta: s.meta("app"), Spec: v1alpha1.ReleaseSpec{
			ClusterRef: v1alpha1.ClusterRef{Name: "prod"}, Mutations: []v1alpha1.Mutation{m},
			Source:         v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "x"}},
			SyncPolicy:     v1alpha1.SyncPolicy{Interval: metav1.Duration{Duration: time.Hour}, Timeout: metav1.Duration{Duration: time.Minute}},
			DeletionPolicy: v1alpha1.ReleaseDeletionPolicy{Timeout: metav1.Duration{Duration: time.Minute}},
		}}
		if err := s.hub.Create(s.ctx, r); !apierrors.IsInvalid(err) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
