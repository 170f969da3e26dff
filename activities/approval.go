package activities

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/render"
)

// hold decides whether a rollout of a render that is due may begin. When it may, use says by whose approval, if it needed one. The sync policy being unreadable is a terminal failure.
func (a *Activities) hold(ctx context.Context, r *v1alpha1.Release, d delivery.Due, content render.Content) (
	hold *delivery.Hold, use *v1alpha1.ApprovalUse, err error,
) {
	if policy := r.Spec.SyncPolicy; policy.Prune == v1alpha1.PruneConfirm && policy.Mode != v1alpha1.SyncManual {
		records, err := a.Ledger.Load(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		for _, rec := range records {
			d.Prunes += apply.CountLeaving(rec, content.Objects, content.TargetNamespace, r.Spec.CreateNamespace)
		}
	}
	approval, err := a.approval(ctx, r, "", d.Number, d.Digest) // also where none is needed: this render voids those of others
	if err != nil {
		return nil, nil, err
	}
	if !delivery.NeedsApproval(r, d) {
		approval = nil
	}
	hold, err = delivery.HoldFor(r, d, approval, time.Now())
	if err != nil {
		return nil, nil, failure.Terminal(v1alpha1.ReasonSyncPolicyInvalid, err, "%v", err)
	}
	if hold != nil || approval == nil {
		return hold, nil, nil
	}
	err = a.settle(ctx, approval, v1alpha1.ApprovalStatus{State: v1alpha1.ApprovalUsed, Rollout: d.Number})
	return nil, &v1alpha1.ApprovalUse{Name: approval.Name, By: approval.Spec.ApprovedBy}, err
}

// approval is the Approval that lets a rollout begin or, with its name, a hook of one pass, nil when there is none. Those that its render
// voids are marked.
func (a *Activities) approval(ctx context.Context, r *v1alpha1.Release, hook string, rollout int64, digest string) (*v1alpha1.Approval, error) {
	var all v1alpha1.ApprovalList
	if err := a.Hub.List(ctx, &all, client.InNamespace(r.Namespace), client.MatchingFields{"spec.releaseRef.name": r.Name}); err != nil {
		return nil, fmt.Errorf("list the Approvals of Release %s/%s: %w", r.Namespace, r.Name, err)
	}
	use, void := delivery.JudgeApprovals(r, hook, rollout, digest, all.Items)
	for _, approval := range void {
		if err := a.settle(ctx, approval, v1alpha1.ApprovalStatus{State: v1alpha1.ApprovalVoid}); err != nil {
			return nil, err
		}
	}
	return use, nil
}

// settle writes what became of an Approval. One that is gone meanwhile approves nothing: the caller begins again.
func (a *Activities) settle(ctx context.Context, approval *v1alpha1.Approval, became v1alpha1.ApprovalStatus) error {
	if approval.Status == became {
		return nil
	}
	before := approval.DeepCopy()
	approval.Status = became
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := a.Hub.Status().Patch(ctx, approval, patch); err != nil {
		return fmt.Errorf("write what became of Approval %s/%s: %w", approval.Namespace, approval.Name, err)
	}
	return nil
}
