package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

var outageLength = flag.Duration("outage", time.Minute, "how long Temporal is away in TestWhatIsWishedWhileTemporalIsAwayIsDoneOnceItIsBack")

// away is how Temporal goes away and comes back.
type away struct {
	keeps    bool // what was in it
	restarts bool // convoy starts while it is away
}

func TestWhatIsWishedWhileTemporalIsAwayIsDoneOnceItIsBack(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]away{
		"it comes back as it was":                               {keeps: true},
		"it comes back empty and convoy was started without it": {restarts: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newAbsence(t, a)
			before := o.getRelease("other")
			began := time.Now()
			o.must(o.local.Temporal.Stop())
			if a.restarts {
				o.must(o.convoy.kill())
			}
			o.wish()
			if a.restarts {
				o.must(o.convoy.launch())
			}
			o.suffer(before)
			(&disturbed{scene: o.scene}).pass(*outageLength - time.Since(began))
			if code, _ := o.convoy.answers(o.ctx, "readyz"); code == http.StatusOK || o.convoy.pid() == 0 {
				t.Errorf("at the end of the outage, it runs as %d and answers readyz with %d", o.convoy.pid(), code)
			}
			o.edit("app", "three") // newer than what could not be handed over
			o.must(o.local.Temporal.Start(o.ctx))
			o.recover(before)
		})
	}
}

// absence is a scene with a Temporal of its own, which goes away.
type absence struct {
	*scene
	told   *listener
	doomed *v1alpha1.Release
	pid    int // of convoy, while Temporal is away
}

func newAbsence(t *testing.T, a away) *absence {
	t.Helper()
	at := newHub(t, "outage-hub", func(o *env.Options) { o.Temporal.Persistent = a.keeps })
	at.convoy = startedOn(t, at, "outage-"+fmt.Sprint(a.restarts))
	o := &absence{scene: newSceneAt(t, at)}
	o.told = o.listen()
	o.targetNamespace(o.on(beta))
	o.readyCluster("prod", beta)
	for _, name := range []string{"app", "doomed", "other"} {
		o.greeting(name, "one")
	}
	o.release("app", "prod", "app", intoNamespace(o.ns), hooked(o.told.hook("told", v1alpha1.HookPreApply)))
	o.doomed = o.release("doomed", "prod", "doomed", intoNamespace(o.ns))
	o.release("other", "prod", "other", intoNamespace(o.ns))
	for _, name := range []string{"app", "doomed", "other"} {
		o.awaitDelivered(name)
		o.awaitIdle(name)
	}
	o.awaitObserver("prod")
	o.awaitDrift("other", metav1.ConditionFalse) // nothing more is to be written to it
	return o
}

// wish edits, deletes and creates.
func (o *absence) wish() {
	o.Helper()
	o.edit("app", "two")
	change(o.scene, &v1alpha1.Release{ObjectMeta: o.meta("app")}, func(r *v1alpha1.Release) { r.Spec.SyncPolicy.HistoryLimit = 3 })
	o.remove(o.doomed)
	o.greeting("fresh", "one")
	o.release("fresh", "prod", "fresh", intoNamespace(o.ns))
}

// suffer waits until what was changed says that the engine is unavailable, and sees that nothing else was touched.
func (o *absence) suffer(other *v1alpha1.Release) {
	o.Helper()
	for _, name := range []string{"app", "doomed", "fresh"} {
		o.eventually("Release "+name+" says that Temporal does not answer", func(ctx context.Context) error {
			r := &v1alpha1.Release{ObjectMeta: o.meta(name)}
			if err := o.hub.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
				return err
			}
			return o.compare(r.Status.Conditions, v1alpha1.ConditionEngineUnavailable, metav1.ConditionTrue, v1alpha1.ReasonEngineUnavailable, r.Generation)
		})
	}
	o.pid = o.convoy.pid()
	if now := o.getRelease("other"); now.ResourceVersion != other.ResourceVersion {
		o.Errorf("a Release that nobody changed was written: %v", now.Status.Conditions)
	}
	if c := o.getCluster("prod"); !meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ConditionReady) || len(c.Status.Conditions) != 1 {
		o.Errorf("the Cluster, which is well, says %v", c.Status.Conditions)
	}
	out, err := o.command("convoy-race", "why", "release", "app", "--kubeconfig="+o.hubFile, "--namespace="+o.ns, "--temporal-address="+o.local.Temporal.Address)
	if err != nil || !strings.Contains(out, "EngineUnavailable: Temporal does not answer") || !strings.Contains(out, "mend Temporal") {
		o.Errorf("convoy why: %v:\n%s", err, out)
	}
	if code, err := o.convoy.answers(o.ctx, "healthz"); code != http.StatusOK {
		o.Errorf("convoy is not alive: %d, %v", code, err)
	}
	if code, _ := o.convoy.answers(o.ctx, "readyz"); code == http.StatusOK {
		o.Error("convoy says that it is ready")
	}
}

// recover waits until every wish is fulfilled, the newest of each, and nothing besides.
func (o *absence) recover(other *v1alpha1.Release) {
	o.Helper()
	on := o.on(beta)
	o.awaitText(patience, on, "app", "three")
	o.awaitGone(o.hub, o.doomed)
	for _, name := range []string{"app", "fresh", "other"} {
		o.awaitDelivered(name)
		o.eventually("Release "+name+" takes back that Temporal does not answer", func(context.Context) error {
			if r := o.getRelease(name); meta.FindStatusCondition(r.Status.Conditions, v1alpha1.ConditionEngineUnavailable) != nil {
				return errors.New("it does not")
			}
			return nil
		})
		o.awaitIdle(name)
	}
	if r := o.getRelease("app"); r.Status.Rollout.Number != 2 {
		o.Errorf("two edits became rollout %d", r.Status.Rollout.Number)
	}
	if told := o.told.told(); !slices.Equal(told, []string{"told PreApply", "told PreApply"}) {
		o.Errorf("the hook of two rollouts ran as %v", told)
	}
	if r := o.getRelease("other"); r.Status.Rollout.Number != 1 || r.Status.Rollout.WorkflowID != other.Status.Rollout.WorkflowID {
		o.Errorf("a Release that nobody changed has rollout %+v", r.Status.Rollout)
	}
	if n := o.removals(beta); n != 1 || o.exists(on, &corev1.ConfigMap{ObjectMeta: o.meta("doomed")}) {
		o.Errorf("%d objects were removed, want the one of the Release that was deleted", n)
	}
	if pid := o.convoy.pid(); pid != o.pid {
		o.Errorf("convoy was %d and is %d", o.pid, pid)
	}
	o.must(o.convoy.awaitReady(o.ctx))
}

// answers is how a health check of convoy is answered.
func (c *convoy) answers(ctx context.Context, check string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.health+"/"+check, nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}
