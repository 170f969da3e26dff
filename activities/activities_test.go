package activities

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
)

func objectError(name string) apply.ObjectError {
	return apply.ObjectError{Ref: delivery.ObjectRef{Kind: "ConfigMap", Namespace: "shop", Name: name}, Message: "refused"}
}

func TestMessagesCountObjectsAndNameTheFirstThree(t *testing.T) {
	var five []apply.ObjectError
	for i := range 5 {
		five = append(five, objectError(fmt.Sprint("c", i)))
	}
	got := []string{
		objectErrors(five, 9),
		objectErrors(five[:1], 1),
		unfinished(apply.Removal{Waiting: five[:1], Survivors: five[:2]}),
		unfinished(apply.Removal{Waiting: five[:1]}),
		unfinished(apply.Removal{Failed: five[:1], Waiting: five}),
	}
	want := []string{
		"5 of 9 objects failed: ConfigMap shop/c0: refused; ConfigMap shop/c1: refused; ConfigMap shop/c2: refused; and 2 more",
		"1 of 1 object failed: ConfigMap shop/c0: refused",
		"something that is not convoy's keeps 2 objects: ConfigMap shop/c0: refused; ConfigMap shop/c1: refused",
		"waiting for 1 object to go: ConfigMap shop/c0: refused",
		"the cluster does not let convoy delete 1 object: ConfigMap shop/c0: refused",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAWaitForHealthThatCouldNotLookInTimeLooksOnceMore(t *testing.T) {
	started := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		timeout, after, want time.Duration
	}{
		"at the beginning it has all its time":    {5 * time.Minute, 0, 5 * time.Minute},
		"a retried wait does not begin anew":      {5 * time.Minute, 2 * time.Minute, 5 * time.Minute},
		"one that was kept away looks once more":  {5 * time.Minute, time.Hour, time.Hour + lastLook},
		"a short time-out is not stretched by it": {time.Second, 0, time.Second},
		"nor is it when the wait was kept away":   {time.Second, time.Hour, time.Hour + time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := lookUntil(started, tc.timeout, started.Add(tc.after)).Sub(started)
			if got != tc.want {
				t.Errorf("it looks until %s after the start, want %s", got, tc.want)
			}
		})
	}
}

func TestACreatedNamespaceIsSparedOnlyAfterOthersHadTimeToLeaveIt(t *testing.T) {
	release := func(create bool, ago time.Duration) *leaving {
		r := &v1alpha1.Release{}
		r.Spec.CreateNamespace, r.Spec.TargetNamespace = create, "shop"
		return &leaving{release: r, since: time.Now().Add(-ago)}
	}
	cases := map[string]struct {
		l    *leaving
		want string
	}{
		"at once it is waited for":             {release(true, 0), ""},
		"after a while it is spared":           {release(true, 2*namespacePatience), "shop"},
		"one that convoy did not create stays": {release(false, 2*namespacePatience), ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.l.spareNamespace(); got != tc.want {
				t.Errorf("spared %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAClusterRegisteredAnewIsTheSameTargetOnlyByItsIdentity(t *testing.T) {
	release := &v1alpha1.Release{}
	known := apply.NewRecord(release, &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{UID: "c-1"}, Status: v1alpha1.ClusterStatus{ClusterID: "target-a"},
	})
	unknown := apply.NewRecord(release, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c-1"}})
	again := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c-2"}, Status: v1alpha1.ClusterStatus{ClusterID: "target-a"}}
	other := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c-2"}, Status: v1alpha1.ClusterStatus{ClusterID: "target-b"}}
	unprobed := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c-2"}}
	accepted := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{UID: "c-1"}, Status: v1alpha1.ClusterStatus{ClusterID: "target-b"}}
	got := []bool{
		sameTarget(again, known), sameTarget(other, known), sameTarget(unprobed, known), sameTarget(unprobed, unknown),
		sameTarget(accepted, known), sameTarget(accepted, unknown),
	}
	if diff := cmp.Diff([]bool{true, false, false, false, false, true}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
