package delivery_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func cluster(change func(*v1alpha1.Cluster)) *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "east", UID: "c-1"}}
	if change != nil {
		change(c)
	}
	return c
}

func release(change func(*v1alpha1.Release)) *v1alpha1.Release {
	r := &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "podinfo", UID: "r-1", Generation: 1}}
	r.Spec.ClusterRef.Name = "east"
	if change != nil {
		change(r)
	}
	return r
}

func TestTheGateIsOpenOnlyForAReachableCluster(t *testing.T) {
	yes, no, now := true, false, metav1.Now()
	cases := map[string]struct {
		cluster *v1alpha1.Cluster
		open    bool
		message string
	}{
		"a missing Cluster closes it":       {nil, false, `Cluster "east" does not exist in this namespace`},
		"a Cluster never probed closes it":  {cluster(nil), false, `Cluster "east" has not been probed yet`},
		"a reachable Cluster opens it":      {cluster(func(c *v1alpha1.Cluster) { c.Status.Reachable = &yes }), true, ""},
		"an unreachable one closes it":      {cluster(func(c *v1alpha1.Cluster) { c.Status.Reachable = &no }), false, `Cluster "east" is not reachable`},
		"a Cluster being deleted closes it": {cluster(func(c *v1alpha1.Cluster) { c.Status.Reachable, c.DeletionTimestamp = &yes, &now }), false, `Cluster "east" is being deleted`},
		"the verdict of the probe is told": {cluster(func(c *v1alpha1.Cluster) {
			c.Status.Reachable = &no
			c.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Message: "connection refused"}}
		}), false, `Cluster "east" is not reachable: connection refused`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			open, message := delivery.Gate("east", tc.cluster)
			if open != tc.open || message != tc.message {
				t.Errorf("Gate = %v, %q, want %v, %q", open, message, tc.open, tc.message)
			}
		})
	}
}

func TestARolloutIsDueWhenRenderOrClusterDifferFromTheLastOneThatConcluded(t *testing.T) {
	last := func(phase v1alpha1.RolloutPhase) *v1alpha1.RolloutStatus {
		return &v1alpha1.RolloutStatus{Number: 7, Phase: phase, Digest: "sha256:a", Cluster: "c-1"}
	}
	cases := map[string]struct {
		last            *v1alpha1.RolloutStatus
		digest, cluster string
		want            int64
	}{
		"the first render is rollout 1":                  {nil, "sha256:a", "c-1", 1},
		"the same render is not due again":               {last(v1alpha1.RolloutSucceeded), "sha256:a", "c-1", 0},
		"another render is the next one":                 {last(v1alpha1.RolloutSucceeded), "sha256:b", "c-1", 8},
		"another Cluster is the next one":                {last(v1alpha1.RolloutSucceeded), "sha256:a", "c-2", 8},
		"a failed rollout is tried as the next one":      {last(v1alpha1.RolloutFailed), "sha256:a", "c-1", 8},
		"a running one goes on under its number":         {last(v1alpha1.RolloutRunning), "sha256:a", "c-1", 7},
		"another render takes over from the running one": {last(v1alpha1.RolloutRunning), "sha256:b", "c-1", 8},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := delivery.NextRollout(&v1alpha1.ReleaseStatus{Rollout: tc.last}, tc.digest, tc.cluster)
			if got != tc.want {
				t.Errorf("NextRollout = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestAReleaseIsUpToDateOnlyAfterARolloutOfTheSameInputsConcludedWell(t *testing.T) {
	good := func() *v1alpha1.ReleaseStatus {
		return &v1alpha1.ReleaseStatus{
			InputsDigest: "sha256:in", RenderRef: &v1alpha1.RenderRef{Digest: "sha256:a"},
			Rollout: &v1alpha1.RolloutStatus{Phase: v1alpha1.RolloutSucceeded, Digest: "sha256:a", Cluster: "c-1"},
		}
	}
	cases := map[string]struct {
		change func(*v1alpha1.ReleaseStatus)
		want   bool
	}{
		"as it was":                    {func(*v1alpha1.ReleaseStatus) {}, true},
		"with other inputs":            {func(s *v1alpha1.ReleaseStatus) { s.InputsDigest = "sha256:other" }, false},
		"with a failed rollout":        {func(s *v1alpha1.ReleaseStatus) { s.Rollout.Phase = v1alpha1.RolloutFailed }, false},
		"with a running rollout":       {func(s *v1alpha1.ReleaseStatus) { s.Rollout.Phase = v1alpha1.RolloutRunning }, false},
		"with another Cluster":         {func(s *v1alpha1.ReleaseStatus) { s.Rollout.Cluster = "c-2" }, false},
		"with a newer render":          {func(s *v1alpha1.ReleaseStatus) { s.RenderRef.Digest = "sha256:b" }, false},
		"before the first rollout":     {func(s *v1alpha1.ReleaseStatus) { s.Rollout = nil }, false},
		"without a render to its name": {func(s *v1alpha1.ReleaseStatus) { s.RenderRef = nil }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := good()
			tc.change(s)
			if got := delivery.UpToDate(s, "sha256:in", "c-1"); got != tc.want {
				t.Errorf("UpToDate = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTheInputsDigestMovesWithEverythingThatARenderReads(t *testing.T) {
	base := delivery.InputsDigest(release(nil), cluster(nil), "main@sha1:1")
	if again := delivery.InputsDigest(release(nil), cluster(nil), "main@sha1:1"); again != base {
		t.Errorf("the same inputs gave %s and %s", base, again)
	}
	cases := map[string]struct {
		r        *v1alpha1.Release
		c        *v1alpha1.Cluster
		revision string
		moves    bool
	}{
		"another revision":   {release(nil), cluster(nil), "main@sha1:2", true},
		"another generation": {release(func(r *v1alpha1.Release) { r.Generation = 2 }), cluster(nil), "main@sha1:1", true},
		"a label":            {release(func(r *v1alpha1.Release) { r.Labels = map[string]string{"a": "b"} }), cluster(nil), "main@sha1:1", true},
		"metadata of the Cluster": {release(nil), cluster(func(c *v1alpha1.Cluster) {
			c.Spec.Metadata = map[string]v1alpha1.MetadataValue{"region": "eu"}
		}), "main@sha1:1", true},
		"another Cluster of the same name": {release(nil), cluster(func(c *v1alpha1.Cluster) { c.UID = "c-2" }), "main@sha1:1", true},
		"an annotation of convoy's own": {release(func(r *v1alpha1.Release) {
			r.Annotations = map[string]string{v1alpha1.AnnotationRequestedAt: "now"}
		}), cluster(nil), "main@sha1:1", false},
		"the status of the Cluster": {release(nil), cluster(func(c *v1alpha1.Cluster) { c.Status.KubernetesVersion = "v1" }), "main@sha1:1", false},
		"the server of the Cluster": {release(nil), cluster(func(c *v1alpha1.Cluster) {
			c.Spec.Agentless = &v1alpha1.AgentlessConnection{Server: "https://east.example"}
		}), "main@sha1:1", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if moved := delivery.InputsDigest(tc.r, tc.c, tc.revision) != base; moved != tc.moves {
				t.Errorf("moved = %v, want %v", moved, tc.moves)
			}
		})
	}
}

func TestTheContextHoldsMetadataAndNamesAndNothingElse(t *testing.T) {
	c := cluster(func(c *v1alpha1.Cluster) {
		c.Spec.Metadata = map[string]v1alpha1.MetadataValue{"region": "eu", "name": "overridden"}
	})
	r := release(func(r *v1alpha1.Release) {
		r.Labels = map[string]string{"team": "a"}
		r.Annotations = map[string]string{v1alpha1.AnnotationNewLife: "r-1", "note": "n"}
	})
	want := map[string]any{
		"cluster": map[string]any{"region": "eu", "name": "east"},
		"release": map[string]any{
			"name": "podinfo", "namespace": "default",
			"labels": map[string]any{"team": "a"}, "annotations": map[string]any{"note": "n"},
		},
	}
	if diff := cmp.Diff(want, delivery.NewContext(c, r).Values()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestARestoredReleaseIsOneUntilARolloutHasSucceeded(t *testing.T) {
	ended := func(phases ...v1alpha1.RolloutPhase) func(*v1alpha1.Release) {
		return func(r *v1alpha1.Release) {
			r.Annotations, r.UID = map[string]string{v1alpha1.AnnotationNewLife: "r-1"}, "r-2"
			for i, phase := range phases {
				if i == 0 {
					r.Status.Rollout = &v1alpha1.RolloutStatus{Number: int64(len(phases)), Phase: phase}
				} else {
					r.Status.History = append(r.Status.History, v1alpha1.RolloutRecord{Phase: phase})
				}
			}
		}
	}
	const running, failed, succeeded = v1alpha1.RolloutRunning, v1alpha1.RolloutFailed, v1alpha1.RolloutSucceeded
	for name, tc := range map[string]struct {
		r    *v1alpha1.Release
		want bool
	}{
		"a life of its own":                  {release(func(r *v1alpha1.Release) { ended(running)(r); r.UID = "r-1" }), false},
		"nothing ran yet":                    {release(ended()), true},
		"the first rollout runs":             {release(ended(running)), true},
		"the first failed":                   {release(ended(failed)), true},
		"a second runs after that":           {release(ended(running, failed)), true},
		"one succeeded":                      {release(ended(succeeded, failed)), false},
		"another runs after one succeeded":   {release(ended(running, failed, succeeded)), false},
		"another failed after one succeeded": {release(ended(failed, succeeded)), false},
	} {
		if got := delivery.Restored(tc.r); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestNothingAppliedIsCertainOnlyInTheLifeThatItsMarkNames(t *testing.T) {
	marked := func(r *v1alpha1.Release) {
		r.Annotations = map[string]string{v1alpha1.AnnotationNewLife: "r-1"}
	}
	recorded := &v1alpha1.InventoryStatus{State: v1alpha1.InventoryRecorded}
	cases := map[string]struct {
		r        *v1alpha1.Release
		recorded bool
		want     bool
	}{
		"a new life without an inventory": {release(marked), false, true},
		"a new life with an inventory":    {release(marked), true, false},
		"no mark":                         {release(nil), false, false},
		"the mark of another life":        {release(func(r *v1alpha1.Release) { marked(r); r.UID = "r-2" }), false, false},
		"a status that had an inventory":  {release(func(r *v1alpha1.Release) { marked(r); r.Status.Inventory = recorded }), false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := delivery.NothingApplied(tc.r, tc.recorded); got != tc.want {
				t.Errorf("NothingApplied = %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTheBackoffDoublesUpToItsCapAndIsNotResetByACancellation(t *testing.T) {
	b := delivery.ProbeBackoff
	var got []string
	for failures := range 9 {
		got = append(got, b.Delay(failures).String())
	}
	want := "0s 5s 10s 20s 40s 1m20s 2m40s 5m0s 5m0s"
	if strings.Join(got, " ") != want {
		t.Errorf("delays = %s, want %s", strings.Join(got, " "), want)
	}
	if got := b.FailuresAfter(0, 0); got != 1 {
		t.Errorf("a probe that was cancelled at once counts as %d failures, want 1", got)
	}
	if got := b.FailuresAfter(0, 36*time.Second); got != 4 {
		t.Errorf("36s of retrying are %d failures, want 4", got)
	}
	if got := b.FailuresAfter(60, 1000*time.Hour); got != 64 {
		t.Errorf("failures are counted up to %d, want 64", got)
	}
}

func TestJitterStaysWithinATenthAndIsTheSameForTheSameTurn(t *testing.T) {
	seen := map[time.Duration]bool{}
	for turn := range int64(50) {
		d := delivery.Jitter(time.Hour, "uid", turn)
		if d != delivery.Jitter(time.Hour, "uid", turn) {
			t.Fatal("the same turn gave two delays")
		}
		if d < 54*time.Minute || d > 66*time.Minute {
			t.Errorf("turn %d: %s is more than a tenth off", turn, d)
		}
		seen[d] = true
	}
	if len(seen) < 40 {
		t.Errorf("50 turns gave only %d delays", len(seen))
	}
}

func TestStagesPutDefinitionsFirstAndGatesLast(t *testing.T) {
	cases := map[schema.GroupKind]delivery.Stage{
		{Kind: "Namespace"}: delivery.StageDefinitions,
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}: delivery.StageDefinitions,
		{Group: "rbac.authorization.k8s.io", Kind: "Role"}:                delivery.StageConfig,
		{Kind: "ConfigMap"}:                    delivery.StageConfig,
		{Kind: "Pod"}:                          delivery.StageWorkloads,
		{Group: "apps", Kind: "Deployment"}:    delivery.StageWorkloads,
		{Group: "example.org", Kind: "Widget"}: delivery.StageWorkloads,
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"}: delivery.StageGates,
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:                           delivery.StageGates,
	}
	for gk, want := range cases {
		if got := delivery.StageOf(gk); got != want {
			t.Errorf("StageOf(%s) = %s, want %s", gk, got, want)
		}
	}
	if !slices.IsSorted(delivery.Stages) {
		t.Error("the stages are not in order")
	}
}

func TestOwnersOfDifferentHubsNamespacesAndNamesDiffer(t *testing.T) {
	owners := []delivery.Owner{
		{HubID: "h1", Namespace: "a", Name: "b"},
		{HubID: "h2", Namespace: "a", Name: "b"},
		{HubID: "h1", Namespace: "a/b", Name: "c"},
		{HubID: "h1", Namespace: "a", Name: "c"},
	}
	keys := map[string]bool{}
	for _, o := range owners {
		keys[o.Key()] = true
		if len(o.FieldManager()) > 128 || len(o.Key()) > 63 {
			t.Errorf("%s: too long for a field manager or a label", o)
		}
	}
	if len(keys) != len(owners) {
		t.Errorf("%d owners have %d keys", len(owners), len(keys))
	}
}

func TestADeletionWaitsForAnUnreachableClusterAsItsPolicySays(t *testing.T) {
	yes, no := true, false
	deleted := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		block   *bool
		after   time.Duration
		left    time.Duration
		bounded bool
	}{
		"by default for ever":              {nil, time.Hour, 0, false},
		"when it blocks, for ever":         {&yes, time.Hour, 0, false},
		"else for the timeout":             {&no, time.Minute, 4 * time.Minute, true},
		"and not longer than that":         {&no, time.Hour, 0, true},
		"also with a clock that is behind": {&no, -time.Minute, 6 * time.Minute, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := v1alpha1.ReleaseDeletionPolicy{BlockOnClusterUnreachable: tc.block, Timeout: metav1.Duration{Duration: 5 * time.Minute}}
			left, bounded := delivery.Patience(p, deleted, deleted.Add(tc.after))
			if left != tc.left || bounded != tc.bounded {
				t.Errorf("Patience = %s, %v, want %s, %v", left, bounded, tc.left, tc.bounded)
			}
		})
	}
}

func TestAHubIsKnownByItsNamespaceUnlessItTakesThePlaceOfAnother(t *testing.T) {
	ns := &metav1.ObjectMeta{Name: "kube-system", UID: "its-own"}
	if got := delivery.HubID(ns); got != "its-own" {
		t.Errorf("a hub of its own is %q", got)
	}
	ns.Annotations = map[string]string{v1alpha1.AnnotationHubID: "of-another"}
	if got := delivery.HubID(ns); got != "of-another" {
		t.Errorf("a hub that takes the place of another is %q", got)
	}
}
