package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Names of the phases of the suite of Releases, in the figures that programs read.
const (
	phaseCold    = "Cold"
	phaseRequest = "NoopRequested"
	phaseSignal  = "NoopSignalled"
	phaseDelete  = "Delete"
)

// releasesSuite measures deliveries to one healthy Cluster.
type releasesSuite struct {
	*world
	names []string // of the Releases, and of the ConfigMaps that are their sources
}

func newReleasesSuite(w *world) suite {
	r := &releasesSuite{world: w, names: numbered("release", w.N)}
	full := func(ctx context.Context, _ figures) ([]fact, error) { return nil, r.onTarget(ctx, w.N*w.M) }
	empty := func(ctx context.Context, _ figures) ([]fact, error) { return nil, r.onTarget(ctx, 0) }
	phases := []phase{
		{name: phaseCold, title: "first delivery, from the first Release created to all Ready", do: r.deliver, check: full},
		{name: phaseRequest, title: "nothing to do, asked by annotation, to all answered", do: r.request, check: full},
		{name: phaseSignal, title: "nothing to do, asked by signal, to all workflows at rest", do: r.signal, check: full},
		{name: phaseDelete, title: "deletion, from the first Release deleted to all gone", do: r.remove, check: empty},
	}
	for i := range phases {
		phases[i].rest, phases[i].budgets = r.resting, releaseBudgets(phases[i].name, w.N, w.M)
	}
	return suite{
		name: suiteReleases, about: fmt.Sprintf("%d Releases of %d ConfigMaps", w.N, w.M), unit: "Release", n: w.N,
		sample: workflowIDs(delivery.ReleaseWorkflowID, spread(r.names, sampleSize)), furnish: r.furnish, phases: phases,
	}
}

// releaseBudgets are what a phase with n Releases of m objects may cost: wall time and memory in all, the rest per
// Release.
func releaseBudgets(phase string, n, m int) map[string]float64 {
	b := map[string]float64{rowPeak: 223}
	switch phase {
	case phaseCold:
		b[rowHubWrites], b[rowHubEvents], b[rowTargetWrites] = 6, 1, float64(m)
		b[rowActivities], b[rowChildren], b[rowEvents] = 6, 1, 60
		if m == 4 && n >= 100 { // fewer, or of another size, have no budget
			b[rowWall] = 15 * float64(n) / 100
		}
	case phaseRequest, phaseSignal:
		b[rowHubWrites], b[rowHubEvents], b[rowTargetReads], b[rowTargetWrites] = 0, 0, 0, 0
		b[rowActivities], b[rowChildren], b[rowEvents] = 2, 0, 18
		if phase == phaseRequest {
			b[rowHubWrites] = 1 // the answer
		}
	}
	return b
}

// furnish writes the Cluster, which it awaits, and the sources.
func (r *releasesSuite) furnish(ctx context.Context) error {
	if err := r.furnishCluster(ctx); err != nil {
		return err
	}
	text := strings.Repeat("x", 200)
	return each(ctx, r.names, func(ctx context.Context, name string) error { return r.hub.Create(ctx, source(name, r.M, text)) })
}

func (r *releasesSuite) furnishCluster(ctx context.Context) error {
	const name = "target"
	kubeconfig, err := r.kubeconfig("")
	if err != nil {
		return err
	}
	if err := r.hub.Create(ctx, kubeconfigSecret(name, kubeconfig)); err != nil {
		return err
	}
	if err := r.hub.Create(ctx, cluster(name)); err != nil {
		return err
	}
	return r.clusters.await(ctx, []string{name}, reachable)
}

func (r *releasesSuite) deliver(ctx context.Context) error {
	err := each(ctx, r.names, func(ctx context.Context, name string) error { return r.hub.Create(ctx, release(name, "target")) })
	if err != nil {
		return err
	}
	return r.releases.await(ctx, r.names, delivered)
}

func (r *releasesSuite) request(ctx context.Context) error {
	const value = "1"
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRequestedAt, value))
	err := each(ctx, r.names, func(ctx context.Context, name string) error {
		return r.hub.Patch(ctx, &v1alpha1.Release{ObjectMeta: named(name)}, patch)
	})
	if err != nil {
		return err
	}
	return r.releases.await(ctx, r.names, func(r *v1alpha1.Release) bool {
		return r != nil && r.Status.LastHandledReconcileAt == value
	})
}

func (r *releasesSuite) signal(ctx context.Context) error {
	if err := each(ctx, r.names, r.reconcileNow); err != nil {
		return err
	}
	return r.resting(ctx) // the server has work for a workflow from when it takes the signal
}

func (r *releasesSuite) remove(ctx context.Context) error {
	if err := each(ctx, r.names, r.deleteRelease); err != nil {
		return err
	}
	return r.releases.await(ctx, r.names, gone)
}

// resting waits until nothing of any Release's workflow is under way.
func (r *releasesSuite) resting(ctx context.Context) error {
	return r.atRest(ctx, workflowIDs(delivery.ReleaseWorkflowID, r.names))
}

// onTarget checks how many ConfigMaps the target has.
func (r *releasesSuite) onTarget(ctx context.Context, want int) error {
	texts, err := r.textsOnTarget(ctx)
	if err == nil && len(texts) != want {
		err = fmt.Errorf("the target has %d ConfigMaps, want %d", len(texts), want)
	}
	return err
}

// textsOnTarget is what the ConfigMaps of the target hold, by name.
func (w *world) textsOnTarget(ctx context.Context) (map[string]string, error) {
	var list corev1.ConfigMapList
	if err := w.target.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	texts := make(map[string]string, len(list.Items))
	for i := range list.Items {
		texts[list.Items[i].Name] = list.Items[i].Data[textKey]
	}
	return texts, nil
}

// reconcileNow has a Release looked at, also in the middle of a backoff.
func (w *world) reconcileNow(ctx context.Context, name string) error {
	return w.temporal.SignalWorkflow(ctx, delivery.ReleaseWorkflowID(namespace, name), "", delivery.SignalReconcile, nil)
}

func (w *world) deleteRelease(ctx context.Context, name string) error {
	return client.IgnoreNotFound(w.hub.Delete(ctx, &v1alpha1.Release{ObjectMeta: named(name)}))
}

// textKey is the key of the ConfigMaps that are delivered.
const textKey = "text"

// source describes the source of a Release: one file for each of its m ConfigMaps, which hold text.
func source(name string, m int, text string) *corev1.ConfigMap {
	files := map[string]string{}
	for i := range m {
		object := objectName(name, i)
		files[object+".yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s\ndata:\n  %s: %s\n", object, textKey, text)
	}
	return &corev1.ConfigMap{ObjectMeta: named(name), Data: files}
}

// objectName is the name of one of the ConfigMaps that a Release delivers.
func objectName(release string, i int) string { return fmt.Sprintf("%s-%d", release, i) }

// release describes a Release to a Cluster.
func release(name, cluster string) *v1alpha1.Release {
	return &v1alpha1.Release{ObjectMeta: named(name), Spec: v1alpha1.ReleaseSpec{
		ClusterRef:      v1alpha1.ClusterRef{Name: cluster},
		Source:          v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: name}},
		TargetNamespace: namespace,
		// The Go types write zero durations out, which the schema refuses: the defaults, spelled.
		SyncPolicy:     v1alpha1.SyncPolicy{Interval: metav1.Duration{Duration: time.Hour}, Timeout: metav1.Duration{Duration: 5 * time.Minute}},
		DeletionPolicy: v1alpha1.ReleaseDeletionPolicy{Timeout: metav1.Duration{Duration: 5 * time.Minute}},
	}}
}

// workflowIDs are the IDs of the workflows of objects.
func workflowIDs(id func(namespace, name string) string, names []string) []string {
	ids := make([]string, 0, len(names))
	for _, name := range names {
		ids = append(ids, id(namespace, name))
	}
	return ids
}
