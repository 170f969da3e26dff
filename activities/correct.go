package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/status"
)

// CorrectDrift applies again, from the kept render, what is not as it was applied and is due. What that is, it takes from the status; when
// that names not all, and all that it names are due, everything is applied. No hook runs, and no rollout is counted. What the target
// refuses is a result: the observer goes on telling of it.
func (a *Activities) CorrectDrift(ctx context.Context, in CorrectInput) (CorrectResult, error) {
	beat := startHeartbeat(ctx)
	defer beat.stopped()
	r, life, err := a.release(ctx, in.Key)
	if err != nil || life != Alive {
		return CorrectResult{Life: life}, err
	}
	if !delivery.Observable(r) || !delivery.CorrectsDrift(r) || !meta.IsStatusConditionTrue(r.Status.Conditions, v1alpha1.ConditionDrifted) {
		return CorrectResult{Life: Alive}, nil
	}
	open, opens, err := delivery.Windows(r.Spec.SyncPolicy.Windows, time.Now())
	if err != nil || !open {
		return CorrectResult{Life: Alive, Until: opens}, nil // the next rollout says what is wrong with windows that cannot be read
	}
	due, all, _ := delivery.DueCorrections(*r.Status.Drift, time.Now())
	if len(due) == 0 {
		return CorrectResult{Life: Alive}, nil
	}
	s, err := a.correction(ctx, in.Key, r)
	if err != nil || s == nil {
		return CorrectResult{Life: Alive}, err
	}
	defer s.end()
	return a.correct(ctx, s, due, all, beat)
}

// correction is what a correction acts on; nil when the hub asks for something else by now.
func (a *Activities) correction(ctx context.Context, key delivery.Key, r *v1alpha1.Release) (*step, error) {
	last := r.Status.Rollout
	in := delivery.RolloutInput{Key: key, Cluster: r.Spec.ClusterRef.Name, Number: last.Number, Digest: last.Digest}
	s, err := a.currentWhile(ctx, in, func(r *v1alpha1.Release) bool {
		return delivery.Observable(r) && r.Status.Rollout.Number == in.Number && delivery.CorrectsDrift(r)
	})
	if err != nil || s == nil {
		return nil, err
	}
	if s.end, err = a.work(ctx, s.cluster); err != nil {
		return nil, err
	}
	if s.conn, err = a.Clusters.Client(ctx, s.cluster); err == nil {
		s.target, err = a.targetOf(s.conn, s.release)
	}
	if err == nil {
		s.record, err = a.record(ctx, s)
	}
	if err != nil {
		s.end()
		return nil, a.uncorrected(ctx, s, err)
	}
	return s, nil
}

// uncorrected is the failure that is tried again after an error of the target. Others stay what they are.
func (a *Activities) uncorrected(ctx context.Context, s *step, err error) error {
	if _, known := failure.As(err); known || ctx.Err() != nil || errors.Is(err, apply.ErrHub) {
		return err
	}
	return paced(ctx, s.release, a.troubled(ctx, s, v1alpha1.ReasonApplyRetrying, err))
}

func (a *Activities) correct(ctx context.Context, s *step, due []v1alpha1.DriftedObject, all bool, beat *heartbeat) (CorrectResult, error) {
	content, err := a.content(ctx, s)
	if err != nil {
		return CorrectResult{}, err
	}
	policy, drifted := s.release.Spec.SyncPolicy, len(due)
	if d := s.release.Status.Drift; all && d != nil {
		drifted = int(d.Count)
	}
	objects := content.Objects
	if !all {
		named := map[delivery.ObjectRef]bool{}
		for _, o := range due {
			named[delivery.DriftedRef(o)] = true
		}
		objects = chosen(content, named)
	}
	changes, err := apply.Apply(ctx, s.target, a.Ledger, apply.Request{
		Owner: s.owner, Objects: objects, Quiet: content.All(), TargetNamespace: content.TargetNamespace,
		CreateNamespace: s.release.Spec.CreateNamespace, Hooks: content.HookNames(s.release), Record: s.record, Progress: beat.progress,
		Conflicts: policy.Conflicts, Recreate: policy.Recreate,
	})
	problem, applied := "", len(objects)-len(changes.Failed) // without a namespace that was made for them
	switch f, known := failure.As(err); {
	case known && f.Terminal:
		problem, applied = f.Message, 0
	case err != nil:
		return CorrectResult{}, a.uncorrected(ctx, s, err)
	case len(changes.Failed) > 0:
		problem = objectErrors(changes.Failed, len(objects))
	}
	if changes.Retry() {
		passing := failure.Transient(v1alpha1.ReasonApplyRetrying, nil, "Cluster %q: %s", s.cluster.Name, problem)
		if _, err := a.tell(ctx, s, func(r *v1alpha1.Release) { status.NotCorrected(r, cut(problem)) }); err != nil {
			return CorrectResult{}, err
		}
		return CorrectResult{}, paced(ctx, s.release, passing)
	}
	now := metav1.NewTime(time.Now())
	if _, err := a.tell(ctx, s, func(r *v1alpha1.Release) { status.Corrected(r, due, cut(problem), now) }); err != nil {
		return CorrectResult{}, err
	}
	if applied > 0 {
		a.Status.Event(s.release, false, v1alpha1.ReasonDriftCorrected, cut(appliedAgain(min(applied, drifted), due, s.release.Status.Drift)))
	}
	if problem != "" {
		a.Status.Event(s.release, true, v1alpha1.ReasonApplyFailed, cut("what drifted cannot be corrected: "+problem))
	}
	return CorrectResult{Life: Alive, Applied: applied, Message: cut(problem)}, nil
}

// appliedAgain tells of a correction: of which objects, and how often in a row the first of them was tried.
func appliedAgain(n int, due []v1alpha1.DriftedObject, d *v1alpha1.DriftStatus) string {
	const named = 3
	var names []string
	for _, o := range due[:min(len(due), named)] {
		names = append(names, delivery.DriftedRef(o).String())
	}
	text := fmt.Sprintf("applied %s again that had drifted: %s", delivery.Count(n, "object"), strings.Join(names, ", "))
	if n > len(names) {
		text += " and others"
	}
	if d == nil { // the hub asks for something else by now
		return text
	}
	at := slices.IndexFunc(d.Corrected, func(c v1alpha1.CorrectedObject) bool { return delivery.CorrectedRef(c) == delivery.DriftedRef(due[0]) })
	if at >= 0 && d.Corrected[at].Times > 1 {
		text += fmt.Sprintf("; tried %d times in a row, as somebody undoes it", d.Corrected[at].Times)
	}
	return text
}

// chosen are the objects of a render that are named as they are on the target.
func chosen(content render.Content, named map[delivery.ObjectRef]bool) []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(content.Objects), func(o *unstructured.Unstructured) bool {
		ref := delivery.RefOf(o)
		if ref.Namespace == "" && !named[ref] {
			ref.Namespace = content.Namespace()
		}
		return !named[ref]
	})
}
