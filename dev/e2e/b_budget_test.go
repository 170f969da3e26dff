package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
	"kumodo.io/convoy/internal/delivery"
)

// cost is what something cost.
type cost struct {
	activities, events, children int
	target                       []auditLine // requests to the target
	hub                          []auditLine // writes to the hub besides leases and Events
}

// since counts what stands in a history behind its first events.
func since(history []*historypb.HistoryEvent, first int) cost {
	c := cost{events: len(history) - first}
	for name, n := range scheduled(history[first:]) {
		if name == delivery.WorkflowRollout {
			c.children += n
			continue
		}
		c.activities += n
	}
	return c
}

// recorded waits until the audit log of a control plane holds all requests that were answered before, and returns it.
func (s *scene) recorded(c *env.ControlPlane) []auditLine {
	s.Helper()
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	_ = client.IgnoreNotFound(s.on(c).Get(s.ctx, types.NamespacedName{Namespace: s.ns, Name: marker}, &corev1.ConfigMap{}))
	var lines []auditLine
	s.eventually("the audit log is up to date", func(context.Context) error {
		var err error
		if lines, err = auditLogOf(c).read(); err != nil {
			return err
		}
		for _, line := range slices.Backward(lines) {
			if strings.Contains(line.RequestURI, marker) {
				return nil
			}
		}
		return fmt.Errorf("%s is not recorded yet", marker)
	})
	return lines
}

// requestsOf are the requests that a user made of a target.
func (s *scene) requestsOf(target *env.ControlPlane, user string) []auditLine {
	s.Helper()
	return slices.DeleteFunc(slices.Clone(s.recorded(target)), func(l auditLine) bool { return l.User.Username != user })
}

// hubWrites are the writes that convoy made in the scene's namespace of the hub, besides leases, Events and what is
// written about Clusters, which are probed at their own time.
func (s *scene) hubWrites() []auditLine {
	s.Helper()
	return slices.DeleteFunc(slices.Clone(s.recorded(local.Hub)), func(l auditLine) bool {
		return !strings.HasPrefix(l.UserAgent, "convoy/") || l.ObjectRef.Namespace != s.ns || !l.writes() ||
			slices.Contains([]string{"leases", "events", "clusters"}, l.ObjectRef.Resource)
	})
}

// probes is how many probes of a Cluster were begun.
func (s *scene) probes(cluster string) int {
	s.Helper()
	return scheduled(s.history(s.clusterWorkflow(cluster)))["ProbeCluster"]
}

// costOf measures what a reconcile of a delivered Release costs. Probes reach the target, too, at each resync: when one
// comes in between, it measures again.
func (s *scene) costOf(release, cluster, user string, trigger func()) cost {
	s.Helper()
	for {
		s.awaitIdle(release)
		probes := s.probes(cluster)
		if s.pending(s.clusterWorkflow(cluster), "ProbeCluster") != nil {
			s.eventually("the probe ends", func(context.Context) error {
				if p := s.pending(s.clusterWorkflow(cluster), "ProbeCluster"); p != nil {
					return fmt.Errorf("it is attempt %d", p.GetAttempt())
				}
				return nil
			})
		}
		target, hub, first := len(s.requestsOf(beta, user)), len(s.hubWrites()), len(s.history(s.releaseWorkflow(release)))
		trigger()
		s.eventually("the reconcile is under way", func(context.Context) error {
			if n := len(s.history(s.releaseWorkflow(release))); n <= first+4 {
				return fmt.Errorf("the history has %d events", n)
			}
			return nil
		})
		s.awaitIdle(release)
		history := s.history(s.releaseWorkflow(release))
		c := since(history, first)
		c.target, c.hub = s.requestsOf(beta, user)[target:], s.hubWrites()[hub:]
		if s.probes(cluster) == probes {
			return c
		}
	}
}

// auditedCluster is a Ready Cluster of beta with a user of its own, so that the audit log tells who asked. All that is
// written on its account has been written.
func (s *scene) auditedCluster(name, user string) {
	s.Helper()
	c := s.cluster(name, kubeconfigFor(s.T, beta, user))
	s.awaitCluster(name, "True", v1alpha1.ReasonReachable)
	s.awaitKeptCredentials(c.UID)
}

// awaitKeptCredentials waits until convoy keeps what it connected to a Cluster with, and returns it.
func (s *scene) awaitKeptCredentials(cluster types.UID) *corev1.Secret {
	s.Helper()
	var kept corev1.SecretList
	s.eventually("the credentials of the Cluster are kept", func(ctx context.Context) error {
		err := s.hub.List(ctx, &kept, client.InNamespace(s.ns), client.MatchingLabels{v1alpha1.LabelClusterUID: string(cluster)})
		if err == nil && len(kept.Items) != 1 {
			err = fmt.Errorf("there are %d Secrets", len(kept.Items))
		}
		return err
	})
	return &kept.Items[0]
}

func TestAReconcileThatFindsNothingToDoCostsTwoActivitiesAndNoRequestToTheTarget(t *testing.T) {
	s := newScene(t)
	user := "audited-" + s.ns
	repository := s.repository()
	s.commit(repository, env.Change{Files: map[string]string{"greeting.yaml": manifest("greeting", "hello")}})
	s.greeting("source", "hello")
	s.auditedCluster("prod", user)
	for release, source := range map[string]func(*v1alpha1.Release){
		"from-map": func(*v1alpha1.Release) {},
		"from-git": fromGit(repository, "main", ""),
	} {
		s.release(release, "prod", "source", source, func(r *v1alpha1.Release) { r.Spec.SyncPolicy.Interval.Duration = time.Hour })
		s.awaitDelivered(release)
		if release == "from-git" { // the first look of its poll may bring news, which are no reconcile of this kind
			s.eventually("the poll of the source has looked", func(context.Context) error {
				if s.looks(s.sourceWorkflow(release)) == 0 {
					return errors.New("not yet")
				}
				return nil
			})
			s.settled(s.sourceWorkflow(release))
			s.awaitIdle(release)
		}
		before := s.getRelease(release)
		s.wantCheap(release+", by a signal", 0, s.costOf(release, "prod", user, func() {
			s.must(temporal.SignalWorkflow(s.ctx, s.releaseWorkflow(release), "", delivery.SignalReconcile, nil))
		}))
		if after := s.getRelease(release); after.ResourceVersion != before.ResourceVersion {
			t.Errorf("%s: a signal that changes nothing wrote the Release", release)
		}
		s.wantCheap(release+", by requestedAt", 1, s.costOf(release, "prod", user, func() { s.request(release) }))
	}
}

// wantCheap compares the cost of a reconcile that finds nothing to do with its budget.
func (s *scene) wantCheap(what string, hubWrites int, c cost) {
	s.Helper()
	if c.activities > 2 || c.events > 18 || c.children > 0 {
		s.Errorf("%s: %d activities, %d events, %d children; the budget is 2, 18, 0", what, c.activities, c.events, c.children)
	}
	if len(c.target) > 0 {
		s.Errorf("%s: requests to the target: %v", what, c.target)
	}
	if len(c.hub) != hubWrites {
		s.Errorf("%s: %d writes to the hub, want %d: %v", what, len(c.hub), hubWrites, c.hub)
	}
}

func TestTheFirstRolloutOfFourObjectsWritesEachOnceAndKeepsItsBudget(t *testing.T) {
	s := newScene(t)
	user := "audited-" + s.ns
	files := map[string]string{}
	for _, name := range []string{"one", "two", "three", "four"} {
		files[name+".yaml"] = manifest(name, manifestSentinel)
	}
	s.configMap("source", files) // long before the Release: news of it would be one more reason to look
	s.auditedCluster("prod", user)
	s.targetNamespace(s.on(beta))
	before := len(s.hubWrites())
	s.release("app", "prod", "source", func(r *v1alpha1.Release) { r.Spec.CreateNamespace = false })
	r := s.awaitDelivered("app")
	s.awaitIdle("app")

	c := since(s.history(s.releaseWorkflow("app")), 0)
	child := since(s.history(r.Status.Rollout.WorkflowID), 0)
	if n := c.activities + child.activities; n > 6 {
		t.Errorf("%d activities, %d of them in the rollout; the budget is 6", n, child.activities)
	}
	if n := c.events + child.events; n > 60 {
		t.Errorf("%d events, %d of them in the rollout; the budget is 60", n, child.events)
	}
	if writes := s.hubWrites()[before:]; len(writes) > 6 {
		t.Errorf("%d writes to the hub; the budget is 6: %v", len(writes), writes)
	}
	writes := map[string]int{}
	for _, line := range s.requestsOf(beta, user) {
		if line.writes() {
			writes[line.ObjectRef.Resource+"/"+line.ObjectRef.Name]++
		}
	}
	want := map[string]int{"configmaps/one": 1, "configmaps/two": 1, "configmaps/three": 1, "configmaps/four": 1}
	if fmt.Sprint(writes) != fmt.Sprint(want) {
		t.Errorf("writes to the target: %v, want %v", writes, want)
	}
	s.wantOneEvent("app")
}

// wantOneEvent waits for the Event about a Release and fails the test when there is more than one.
func (s *scene) wantOneEvent(release string) {
	s.Helper()
	var about []string
	s.eventually("an Event tells of Release "+release, func(ctx context.Context) error {
		var events corev1.EventList
		if err := hubClient.List(ctx, &events, client.InNamespace(s.ns)); err != nil {
			return err
		}
		about = nil
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.Kind == "Release" && e.InvolvedObject.Name == release {
				about = append(about, e.Reason+": "+e.Message)
			}
		}
		if len(about) == 0 {
			return fmt.Errorf("there is none")
		}
		return nil
	})
	if len(about) > 1 {
		s.Errorf("%d Events: %v", len(about), about)
	}
}

func TestAGatedReleaseCostsTwoActivitiesAndOneWriteHoweverOftenItIsRetried(t *testing.T) {
	s := newScene(t)
	s.greeting("source", "hello")
	s.release("app", "prod", "source") // there is no Cluster
	s.awaitClosed("app")
	s.awaitAttempt(s.releaseWorkflow("app"), "CheckCluster", 2)
	before := s.getRelease("app")
	s.awaitAttempt(s.releaseWorkflow("app"), "CheckCluster", 3)
	if after := s.getRelease("app"); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("a retry wrote the Release")
	}
	history := s.history(s.releaseWorkflow("app"))
	if c := since(history, 0); c.activities != 2 || c.children != 0 {
		t.Errorf("%d activities and %d rollouts: %v", c.activities, c.children, scheduled(history))
	}
	if last := history[len(history)-1].GetEventType(); last != enumspb.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED {
		t.Errorf("the retries left %s in the history", last)
	}
	statusWrites := slices.DeleteFunc(s.hubWrites(), func(l auditLine) bool { return l.ObjectRef.Subresource != "status" })
	if len(statusWrites) != 1 {
		t.Errorf("%d writes of the status: %v", len(statusWrites), statusWrites)
	}
}
