package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// `make chaos` gives these flags other values: the same seed brings the same disturbances at the same points.
var (
	chaosSeed   = flag.Uint64("chaos.seed", 1, "seed of the disturbances of TestARolloutSurvivesWhateverHappensToIt; 0 for another one each time")
	chaosRounds = flag.Int("chaos.rounds", 3, "how many rollouts it disturbs")
	chaosOnly   = flag.String("chaos.only", "", "only disturbances whose names hold this text")
)

// chaosObjects is how many objects each of its rollouts changes.
const chaosObjects = 100

// outage is how long something does not answer, longer than it takes to notice.
const outage = 12 * time.Second

// disturbed is the Release that disturbances happen to.
type disturbed struct {
	*scene
	on   client.Client
	path *link
	told *listener
}

// disturbance is something that happens in the middle of a rollout, and is over when do returns.
type disturbance struct {
	name string
	do   func(*disturbed)
}

var disturbances = []disturbance{
	{"kill -9 of convoy", func(d *disturbed) { d.must(shared.kill()); d.must(shared.start(d.ctx)) }},
	{"kill -9 of convoy, twice", func(d *disturbed) {
		for range 2 {
			d.must(shared.kill())
			d.must(shared.start(d.ctx))
		}
	}},
	{"kill -9 of convoy, which is back after two heartbeat time-outs", func(d *disturbed) { d.must(shared.kill()); d.pass(20 * time.Second); d.must(shared.start(d.ctx)) }},
	{"a stop of convoy", func(d *disturbed) { d.must(shared.stop()); d.must(shared.start(d.ctx)) }},
	{"a frozen Temporal", func(d *disturbed) { d.must(local.Temporal.Freeze()); d.pass(outage); d.must(local.Temporal.Thaw()) }},
	{"an emptied Temporal", func(d *disturbed) { d.must(local.Temporal.Kill()); d.must(local.Temporal.Start(d.ctx)) }},
	{"an emptied Temporal and kill -9 of convoy", func(d *disturbed) {
		d.must(shared.kill())
		d.must(local.Temporal.Kill())
		d.must(local.Temporal.Start(d.ctx))
		d.must(shared.start(d.ctx))
	}},
	{"a target that refuses", func(d *disturbed) { d.path.cut(); d.pass(outage); d.path.mend(d.T) }},
	{"a target that is frozen", func(d *disturbed) { d.path.freeze(); d.pass(outage); d.path.cut(); d.path.mend(d.T) }},
	{"a stop of the hub", func(d *disturbed) { d.must(local.Hub.Stop()); d.must(local.Hub.Start(d.ctx)) }},
}

// pass lets the time of an outage go by: that it lasts is the fault.
func (d *disturbed) pass(t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-d.ctx.Done():
		d.Fatal("the test ended in an outage")
	}
}

// point is a moment of a rollout: a hook that is running, or that many objects are changed.
type point struct {
	hook    string
	objects int
}

func (p point) String() string {
	if p.hook != "" {
		return "while hook " + p.hook + " is running"
	}
	return fmt.Sprintf("when %d of %d objects are changed", p.objects, chaosObjects)
}

func (d *disturbed) reach(p point, text string) {
	d.Helper()
	d.eventually(p.String(), func(ctx context.Context) error {
		if p.hook == "" {
			if n := d.changed(ctx, text); n < p.objects {
				return fmt.Errorf("%d are changed", n)
			}
			return nil
		}
		r := &v1alpha1.Release{ObjectMeta: d.meta("app")}
		if err := d.hub.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if !slices.ContainsFunc(r.Status.Hooks, func(h v1alpha1.HookStatus) bool { return h.Name == p.hook && h.Rollout == r.Status.Rollout.Number }) {
			return errors.New("it has not begun")
		}
		return nil
	})
}

// changed is how many objects on the target say the text.
func (d *disturbed) changed(ctx context.Context, text string) (n int) {
	d.Helper()
	var all corev1.ConfigMapList
	d.must(d.on.List(ctx, &all, client.InNamespace(d.ns), client.HasLabels{v1alpha1.LabelOwner}))
	for i := range all.Items {
		if all.Items[i].Data["text"] == text {
			n++
		}
	}
	return n
}

// TestARolloutSurvivesWhateverHappensToIt disturbs one rollout after another, each at another point, and expects that every
// one ends well without a hand: all objects changed once or little more, no hook of a step that had ended run again.
func TestARolloutSurvivesWhateverHappensToIt(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d: make chaos SEED=%d repeats it", seed, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	d := newDisturbed(t)
	some := slices.DeleteFunc(slices.Clone(disturbances), func(f disturbance) bool { return !strings.Contains(f.name, *chaosOnly) })
	if len(some) == 0 {
		t.Fatalf("no disturbance is called %q", *chaosOnly)
	}
	order := random.Perm(len(some))
	for round := range *chaosRounds {
		f := some[order[round%len(some)]]
		at := []point{{hook: "before"}, {hook: "after"}, {objects: 1 + random.IntN(chaosObjects-1)}, {objects: 1 + random.IntN(chaosObjects-1)}}[random.IntN(4)]
		began := time.Now()
		d.round(int64(round)+2, at, f)
		t.Logf("survived %s %s, in %s", f.name, at, time.Since(began).Round(time.Second/10))
	}
}

// newDisturbed delivers the first render of the Release.
func newDisturbed(t *testing.T) *disturbed {
	t.Helper()
	s := newSerialScene(t)
	d := &disturbed{scene: s, on: s.on(alpha), path: newLink(t, alpha), told: s.listen()}
	s.targetNamespace(d.on)
	s.cluster("prod", d.path.kubeconfig(t, "chaos-"+s.ns))
	s.configMap("source", chaosSource("1"))
	s.release("app", "prod", "source", hooked(
		jobHook("before", v1alpha1.HookPreApply, "", ""), d.told.hook("told", v1alpha1.HookPreApply), jobHook("after", v1alpha1.HookPostApply, "", ""),
	))
	s.awaitDelivered("app")
	return d
}

func chaosSource(text string) map[string]string {
	var all strings.Builder
	for i := range chaosObjects {
		fmt.Fprintf(&all, "%s---\n", manifest(fmt.Sprintf("object-%d", i), text))
	}
	return map[string]string{"objects.yaml": all.String()}
}

func (d *disturbed) round(number int64, at point, f disturbance) {
	d.Helper()
	text := fmt.Sprint(number)
	jobs, told, writes := d.jobsMade(alpha), len(d.told.told()), d.objectWrites()
	change(d.scene, &corev1.ConfigMap{ObjectMeta: d.meta("source")}, func(cm *corev1.ConfigMap) { cm.Data = chaosSource(text) })
	d.reach(at, text)
	f.do(d)
	d.within(4*time.Minute, "the rollout ends well after "+f.name+" "+at.String(), func(ctx context.Context) error {
		r := &v1alpha1.Release{ObjectMeta: d.meta("app")}
		if err := d.hub.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if o := r.Status.Rollout; o.Number != number || o.Phase != v1alpha1.RolloutSucceeded {
			return fmt.Errorf("rollout %d is %s: %v", o.Number, o.Phase, r.Status.Conditions)
		}
		return nil
	})
	if n := d.changed(d.ctx, text); n != chaosObjects {
		d.Errorf("%d of %d objects were changed", n, chaosObjects)
	}
	if n := d.jobsMade(alpha) - jobs; n != 2 {
		d.Errorf("%d Jobs were made for two hooks", n)
	}
	if n := len(d.told.told()) - told; n < 1 || n > 2 { // at most once more: whoever is told may have died over it
		d.Errorf("the server was told %d times", n)
	}
	if n := d.objectWrites() - writes; n < chaosObjects || n > 3*chaosObjects {
		d.Errorf("%d writes for %d objects", n, chaosObjects)
	}
}

// objectWrites is how many patches of its ConfigMaps the target has taken.
func (d *disturbed) objectWrites() (n int) {
	d.Helper()
	for _, l := range d.recorded(alpha) {
		if l.Verb == "patch" && l.ObjectRef.Resource == "configmaps" && l.ObjectRef.Namespace == d.ns && l.ResponseStatus.Code < 300 {
			n++
		}
	}
	return n
}
