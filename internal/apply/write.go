package apply

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// settleTime is how long after the definitions an object of theirs is tried again: the server takes up a new schema a
// little after it says so.
const settleTime = 5 * time.Second

// clientSideManager is the name under which client-side kubectl apply owned fields.
const clientSideManager = "kubectl-client-side-apply"

// write applies one object and returns it as the server has it then; nil, without an error, when it was refused.
func (a *applier) write(ctx context.Context, it *item) (*unstructured.Unstructured, error) {
	live, err := a.tryWrite(ctx, it)
	if err != nil && !fatal(err) && it.ours {
		live, err = a.writeUntilSettled(ctx, it, err)
	}
	if isImmutable(err) {
		live, err = a.replace(ctx, it, err)
	}
	stopped, isStop := errors.AsType[*stop](err)
	switch {
	case err == nil:
		return live, nil
	case isStop && it.implied && stopped.reason == v1alpha1.ReasonConflict:
		return nil, nil // somebody else made it a moment ago; the entry is dropped when it is seen to be the other's
	case isStop:
		a.fail(ObjectError{Ref: it.ref, Reason: stopped.reason, Message: stopped.message, Terminal: stopped.terminal})
		return nil, nil
	case fatal(err):
		return nil, err
	}
	if isRouteMissing(err) {
		a.resolve.refreshOlder(ctx, recent) // for the next attempt: the kind was known, and is gone
	}
	a.fail(refusal(a.resolve.target, it.ref, err, a.clean))
	if it.fresh && !it.maybe {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.refused = append(a.refused, it.ref)
	}
	return nil, nil
}

func (a *applier) writeUntilSettled(ctx context.Context, it *item, last error) (*unstructured.Unstructured, error) {
	bounded, cancel := context.WithDeadline(ctx, a.settled)
	defer cancel()
	var live *unstructured.Unstructured
	_ = growing(100*time.Millisecond, time.Second).Until(bounded, false, true, func(context.Context) (bool, error) {
		var err error
		// Not with the bounded context: a request that was begun is brought to its end.
		live, err = a.tryWrite(ctx, it)
		last = err
		return err == nil || fatal(err), nil
	})
	return live, last
}

// tryWrite sends one patch, which is not forced, and which holds only for the object that convoy applied before, or while
// there is none. Only when the server refuses that does it look why.
func (a *applier) tryWrite(ctx context.Context, it *item) (*unstructured.Unstructured, error) {
	if it.ifNotPresent && it.uid != "" { // most likely it is there
		if live, err := a.get(ctx, it); !isGone(err) {
			return live, err
		}
	}
	first := it.absent()
	if it.uid != "" {
		first = it.known()
	}
	live, err := a.patch(ctx, first, false)
	it.maybe = it.maybe || !isRefused(it.ref, err)
	if apierrors.IsConflict(err) || isOtherObject(err) {
		live, err = a.takeOver(ctx, it, err)
	}
	if err != nil {
		return nil, err
	}
	if it.ifNotPresent || !hasManager(live, clientSideManager) {
		return live, nil
	}
	return a.adopt(ctx, it, live)
}

// adopt moves the fields that client-side apply owned to the Release, and applies once more, so that what the source
// does not have goes.
func (a *applier) adopt(ctx context.Context, it *item, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(clientSideManager), a.req.Owner.FieldManager())
	if err != nil {
		return nil, apierrors.NewInternalError(errors.New("the owners of its fields cannot be read"))
	}
	if patch == nil {
		return live, nil
	}
	if _, err := a.send(ctx, it, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: a.req.Owner.FieldManager()}); err != nil {
		return nil, err
	}
	return a.patch(ctx, it, false)
}

func (a *applier) patch(ctx context.Context, it *item, force bool) (*unstructured.Unstructured, error) {
	data, err := json.Marshal(it.object.Object)
	if err != nil {
		return nil, apierrors.NewBadRequest("it cannot be written as JSON")
	}
	return a.send(ctx, it, types.ApplyPatchType, data, metav1.PatchOptions{
		FieldManager: a.req.Owner.FieldManager(), Force: &force, FieldValidation: metav1.FieldValidationStrict,
	})
}

func (a *applier) send(ctx context.Context, it *item, kind types.PatchType, data []byte, opts metav1.PatchOptions) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(a.listen(ctx, it), requestTimeout)
	defer cancel()
	opts.DryRun = a.dryRun
	return a.resolve.client(it.mapping, it.ref.Namespace).Patch(ctx, it.ref.Name, kind, data, opts)
}

func (a *applier) get(ctx context.Context, it *item) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return a.resolve.client(it.mapping, it.ref.Namespace).Get(ctx, it.ref.Name, getOptions)
}

func hasManager(o *unstructured.Unstructured, name string) bool {
	for _, m := range o.GetManagedFields() {
		if m.Manager == name && m.Operation == metav1.ManagedFieldsOperationUpdate && m.Subresource == "" {
			return true
		}
	}
	return false
}

// isPending reports whether an object, as the server answered, is not healthy yet. Jobs count as done when they
// complete, a Pod that failed is worth a second look, and a condition Ready counts only when it is about what was applied.
func isPending(live *unstructured.Unstructured) bool {
	gvk := live.GroupVersionKind()
	if gvk.Group == "batch" && gvk.Kind == "Job" {
		completed, found, _ := unstructured.NestedString(live.Object, "status", "completionTime")
		return !found || completed == ""
	}
	if gvk.Group == "" && gvk.Kind == "Pod" {
		// The library trusts the shape of a Pod's status more than a server deserves.
		phase, _, _ := unstructured.NestedString(live.Object, "status", "phase")
		return phase != "Succeeded"
	}
	result, err := status.Compute(live)
	return err != nil || result.Status != status.CurrentStatus || delivery.UnobservedReady(live)
}
