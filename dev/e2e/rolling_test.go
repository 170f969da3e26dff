package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// rolled is how many Releases TestARollingRestart delivers.
const rolled = 100

// TestARollingRestartOfAllRolesLosesAndDoublesNoStep restarts two watchers, two workers and two observers, one after another, while
// a hundred Releases are delivered, of which some begin before each. It holds for each of them that
//   - it has one rollout, whose workflow completed, with one ApplyObjects in its history: no step is lost, and none scheduled twice;
//   - its object was written at most once by each attempt of that step, and at least once: a worker that stops gives a step that it
//     does not end back to Temporal, which attempts it again, and the next attempt writes again what the one before had not recorded;
//   - no two of these writes were under way at once, as the target tells: an attempt begins when the one before has ended.
func TestARollingRestartOfAllRolesLosesAndDoublesNoStep(t *testing.T) {
	at := newHub(t, "rolling-hub")
	kubectlAt(t, at, "", "apply", "--server-side", "-k", folder(t, "deploy", "base"))
	convoys := newInstalled(t, at)
	convoys.start("worker-2", "worker")
	convoys.start("observer-2", "observer")
	s := newSceneAt(t, convoys.at)
	s.targetNamespace(s.on(beta))
	s.readyCluster("prod", beta)
	names := slices.Sorted(maps.Keys(convoys.processes))
	for i, made := 0, 0; i < len(names); i++ {
		for ; made < rolled*(i+1)/len(names); made++ {
			name := fmt.Sprintf("app-%d", made)
			s.configMap(name, map[string]string{"object.yaml": manifest(name, "of the source")})
			s.release(name, "prod", name, intoNamespace(s.ns))
		}
		c := convoys.processes[names[i]]
		s.must(c.stop())
		s.must(c.start(s.ctx))
		t.Logf("%s was restarted while %d of %d Releases were delivered", names[i], s.rolledOut(), made)
	}
	s.within(2*patience, "all Releases are delivered", func(context.Context) error {
		if n := s.rolledOut(); n < rolled {
			return fmt.Errorf("%d of %d are", n, rolled)
		}
		return nil
	})
	writes := s.writesOf()
	for i := range rolled {
		s.wantOneRollout(fmt.Sprintf("app-%d", i), writes)
	}
	var leases int
	for _, name := range []string{"watcher-1", "watcher-2"} {
		if convoys.processes[name].pid() != 0 {
			leases++
		}
	}
	if leader := convoys.awaitLeader(""); leader == "" || leases != 2 {
		t.Errorf("of %d watchers, %q leads", leases, leader)
	}
}

// rolledOut is how many Releases of the scene are delivered.
func (s *scene) rolledOut() (n int) {
	s.Helper()
	var all v1alpha1.ReleaseList
	s.must(s.hub.List(s.ctx, &all, client.InNamespace(s.ns)))
	for i := range all.Items {
		if o := all.Items[i].Status.Rollout; o != nil && o.Phase == v1alpha1.RolloutSucceeded {
			n++
		}
	}
	return n
}

// written is one write of an object, from when the target was asked to when it had answered.
type written struct{ from, to time.Time }

// writesOf are the writes of ConfigMaps in the scene's namespace of the target, by name.
func (s *scene) writesOf() map[string][]written {
	s.Helper()
	s.recorded(beta) // waits until all are
	all, err := beta.AuditEvents()
	s.must(err)
	found := map[string][]written{}
	for _, e := range all {
		if e.ObjectRef == nil || e.ObjectRef.Resource != "configmaps" || e.ObjectRef.Namespace != s.ns || e.ResponseStatus == nil || e.ResponseStatus.Code >= 300 {
			continue
		}
		if e.Verb == "patch" || e.Verb == "create" || e.Verb == "update" {
			found[e.ObjectRef.Name] = append(found[e.ObjectRef.Name], written{e.RequestReceivedTimestamp.Time, e.StageTimestamp.Time})
		}
	}
	return found
}

// wantOneRollout fails the test when a step of the only rollout of a Release was lost or doubled.
func (s *scene) wantOneRollout(name string, writes map[string][]written) {
	s.Helper()
	r := s.getRelease(name)
	if r.Status.Rollout.Number != 1 {
		s.Errorf("%s has rollout %d", name, r.Status.Rollout.Number)
	}
	id := delivery.RolloutWorkflowID(s.ns, name, 1)
	if status := s.describe(id).GetWorkflowExecutionInfo().GetStatus(); status != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		s.Errorf("%s is %s", id, status)
	}
	history := s.history(id)
	if n := scheduled(history)["ApplyObjects"]; n != 1 {
		s.Errorf("%s scheduled ApplyObjects %d times", id, n)
	}
	attempts := attemptsOf(history, "ApplyObjects")
	all := writes[name]
	if n := len(all); n < 1 || n > attempts {
		s.Errorf("%s was written %d times by %d attempts", name, n, attempts)
	}
	slices.SortFunc(all, func(a, b written) int { return a.from.Compare(b.from) })
	for i := 1; i < len(all); i++ {
		if all[i].from.Before(all[i-1].to) {
			s.Errorf("%s was written twice at once", name)
		}
	}
	if s.says(s.on(beta), name) != "of the source" {
		s.Errorf("%s is not as the source has it", name)
	}
}

// attemptsOf is how many attempts the last activity of a name took.
func attemptsOf(history []*historypb.HistoryEvent, activity string) (n int) {
	var id int64
	for _, e := range history {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == activity {
			id = e.GetEventId()
		}
		if a := e.GetActivityTaskStartedEventAttributes(); a != nil && a.GetScheduledEventId() == id {
			n = int(a.GetAttempt())
		}
	}
	return n
}
