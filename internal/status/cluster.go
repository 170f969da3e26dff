package status

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// Probed is what a successful probe found.
type Probed struct {
	KubernetesVersion string
	APIGroups         []v1alpha1.APIGroup
	// APIDigest is empty when it is not known, because a group fails.
	APIDigest string
	ClusterID string
}

// Clock bounds how often lastProbeTime moves while the verdict stays.
type Clock struct {
	Now    time.Time
	Resync time.Duration
}

// due reports whether a time that was last written then may be written again.
func (c Clock) due(then *metav1.Time) bool {
	return then == nil || c.Now.Sub(then.Time) >= c.Resync
}

// Reachable records a successful probe.
func Reachable(c *v1alpha1.Cluster, p Probed, clock Clock) {
	s := &c.Status
	turned := s.Reachable == nil || !*s.Reachable || s.ObservedGeneration != c.Generation
	s.Reachable = new(true)
	s.ObservedGeneration = c.Generation
	s.KubernetesVersion, s.APIGroups = p.KubernetesVersion, p.APIGroups
	if p.APIDigest != "" { // a group that fails may still serve what it did
		s.APIDigest = p.APIDigest
	}
	if p.ClusterID != "" {
		s.ClusterID = p.ClusterID
	}
	message := "API server answers; version " + p.KubernetesVersion
	if failing := failingGroups(p.APIGroups); len(failing) > 0 {
		message += "; failing API groups: " + strings.Join(failing, ", ")
	}
	setReady(c, metav1.ConditionTrue, v1alpha1.ReasonReachable, message)
	if now := metav1.NewTime(clock.Now); turned || clock.due(s.LastProbeTime) {
		s.LastProbeTime, s.LastReachableTime = &now, &now
	}
}

// NotReachable records a probe that failed, or that cannot be made.
func NotReachable(c *v1alpha1.Cluster, f *failure.Error, clock Clock) {
	s := &c.Status
	before := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady).DeepCopy()
	turned := before == nil || before.Reason != f.Reason || before.Message != f.Message || s.ObservedGeneration != c.Generation
	s.Reachable = new(false)
	s.ObservedGeneration = c.Generation
	setReady(c, metav1.ConditionFalse, f.Reason, f.Message)
	if turned || clock.due(s.LastProbeTime) {
		now := metav1.NewTime(clock.Now)
		s.LastProbeTime = &now
	}
}

// ClusterDeleting records which Releases a deletion waits for: those that are being deleted, or have moved away and still
// have objects there.
func ClusterDeleting(c *v1alpha1.Cluster, releases []string) {
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionDeleting, Status: metav1.ConditionTrue, ObservedGeneration: c.Generation,
		Reason:  v1alpha1.ReasonWaitingForReleases,
		Message: fmt.Sprintf("waiting for %s to leave the cluster", counted(len(releases), "Release", releases)),
	})
}

func setReady(c *v1alpha1.Cluster, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: status, ObservedGeneration: c.Generation, Reason: reason, Message: message,
	})
}

func failingGroups(groups []v1alpha1.APIGroup) []string {
	var names []string
	for _, g := range groups {
		if g.Failing {
			names = append(names, g.Name)
		}
	}
	return names
}

// counted is "3 Releases (a, b, c)", naming the first five of sorted names.
func counted(n int, noun string, names []string) string {
	if n != 1 {
		noun += "s"
	}
	shown := names
	if len(shown) > 5 {
		shown = append(shown[:5:5], fmt.Sprintf("and %d more", n-5))
	}
	return fmt.Sprintf("%d %s (%s)", n, noun, strings.Join(shown, ", "))
}
