package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/hook"
	"kumodo.io/convoy/internal/observe"
)

// Workflows is the part of a Temporal client that hooks use.
type Workflows interface {
	ExecuteWorkflow(ctx context.Context, options client.StartWorkflowOptions, workflow any, args ...any) (client.WorkflowRun, error)
	DescribeWorkflowExecution(ctx context.Context, workflowID, runID string) (*workflowservice.DescribeWorkflowExecutionResponse, error)
	CancelWorkflow(ctx context.Context, workflowID, runID string) error
	DescribeTaskQueue(ctx context.Context, taskQueue string, kind enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error)
}

// deedOf executes the templates of a hook.
func (a *Activities) deedOf(ctx context.Context, h *hookStep, c delivery.Context) (deed, error) {
	switch {
	case h.hook.Job != nil:
		return a.jobDeed(h, c)
	case h.hook.HTTP != nil:
		return a.httpDeed(h, c)
	case h.hook.Check != nil:
		return a.checkDeed(ctx, h, c)
	case h.hook.Workflow != nil:
		return a.workflowDeed(h, c)
	case h.hook.Approval != nil:
		return a.approvalDeed(h, c)
	}
	if of, ok := h.plan.chart[h.hook.Name]; ok {
		return a.chartDeed(h, of), nil
	}
	return deed{}, failure.Terminal(v1alpha1.ReasonHookFailed, nil, "this convoy does not know what the hook does: it is older than the definition of Releases")
}

func (h *hookStep) id() string { return delivery.HookRunID(string(h.release.UID), &h.run) }

// jobDeed makes the object of a template.
func (a *Activities) jobDeed(h *hookStep, c delivery.Context) (deed, error) {
	o, err := hook.Object(h.hook.Job, c, h.id())
	if err != nil {
		return deed{}, err
	}
	return a.objectDeed(h, o, h.release.Spec.TargetNamespace), nil
}

// objectDeed makes an object, in a namespace if it names none, and waits for its result.
func (a *Activities) objectDeed(h *hookStep, o *unstructured.Unstructured, namespace string) deed {
	var made *apply.HookObject
	judge := &hook.Judge{}
	return deed{
		object: hook.RefOf(o, namespace),
		start: func(ctx context.Context) (err error) {
			if err := a.reach(ctx, h); err != nil {
				return err
			}
			defer h.end() // a wait is no load
			made, err = apply.StartHook(ctx, h.target, a.Ledger, apply.HookRequest{
				Owner: h.owner, Object: o, Run: delivery.HookRunName(string(h.release.UID), &h.run), Entry: entryOf(&h.run),
				TargetNamespace: namespace, Record: h.record, Resumed: h.begun,
				CreateNamespace: h.release.Spec.CreateNamespace, Until: h.until(),
				Objects: func(ctx context.Context) ([]*unstructured.Unstructured, error) { return a.lastRender(ctx, h) },
			})
			if made != nil {
				ref := made.Ref
				h.run.Object = &v1alpha1.HookObject{Group: ref.Group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
			}
			return err
		},
		look: func(ctx context.Context) (bool, string, error) {
			live, err := made.Get(ctx)
			if err != nil {
				return false, "", err
			}
			done, waiting, err := judge.Look(live, healthOf, time.Now())
			return done, named(h.run.Object, waiting), a.scrubbed(ctx, h, named(h.run.Object, ""), err)
		},
		first: 200 * time.Millisecond, last: 3 * time.Second,
		end: func(ctx context.Context) error { return a.cleanObject(ctx, h) },
	}
}

// entryOf is how the inventory names a run.
func entryOf(run *v1alpha1.HookStatus) string {
	return strconv.FormatInt(run.Rollout, 10) + "/" + run.Name
}

// named puts the object before what is said of it.
func named(o *v1alpha1.HookObject, text string) string {
	ref := delivery.ObjectRef{Group: o.Group, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
	return ref.String() + ": " + text
}

// scrubbed takes the values of the render's Secrets out of what a controller says of an object.
func (a *Activities) scrubbed(ctx context.Context, h *hookStep, subject string, err error) error {
	f, ok := failure.As(err)
	if !ok || !f.Terminal {
		return err
	}
	objects, err := a.lastRender(ctx, h)
	if err != nil {
		return err
	}
	return failure.Terminal(f.Reason, nil, "%s%s", subject, apply.Scrub(objects, f.Message))
}

// lastRender is what the rollout applies, or what a deletion removes; empty when nothing was rendered yet.
func (a *Activities) lastRender(ctx context.Context, h *hookStep) ([]*unstructured.Unstructured, error) {
	if h.release.Status.RenderRef == nil {
		return nil, nil
	}
	content, err := a.content(ctx, h.step)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", apply.ErrHub, err)
	}
	return content.All(), nil
}

// healthOf is what internal/observe says of an object, for a hook.
func healthOf(o *unstructured.Unstructured) hook.Health {
	verdict, message := observe.Health(o)
	return hook.Health{Current: verdict == observe.Current, Failed: verdict == observe.Failed, Final: observe.Final(o), Message: message}
}

// cleanHook leaves nothing running of a run that has ended.
func (a *Activities) cleanHook(ctx context.Context, h *hookStep) error {
	switch {
	case h.run.Object != nil:
		return a.cleanObject(ctx, h)
	case h.runsWorkflow() && h.begun && h.run.State != v1alpha1.HookSucceeded:
		return a.cancelHook(ctx, h)
	}
	return nil
}

// runsWorkflow: by the spec as it is now or, of a hook that left it, as it was when the rollout began.
func (h *hookStep) runsWorkflow() bool {
	return h.hook != nil && h.hook.Workflow != nil || h.hook == nil && h.input.Hook.Kind == kindWorkflow
}

const kindWorkflow = "Workflow"

// stopFormerFirst has a run that was begun stop what it began as a hook of another kind, if the spec was changed meanwhile. Of a
// deletion whose target does not answer it is left to the deletion.
func (a *Activities) stopFormerFirst(h *hookStep) {
	madeObject := h.run.Object != nil && h.deed.object == nil
	ranWorkflow := h.input.Hook.Kind == kindWorkflow && h.hook.Workflow == nil
	start := h.deed.start
	if start == nil || !madeObject && !ranWorkflow {
		return
	}
	h.deed.start = func(ctx context.Context) error {
		if madeObject {
			err := a.withObject(ctx, h, &h.run, func(o *apply.HookObject) error { return o.Remove(ctx) })
			if err != nil && (h.run.Rollout != 0 || !connect.Unreachable(err)) {
				return err
			}
			h.run.Object = nil
		}
		if ranWorkflow {
			if err := a.cancelHook(ctx, h); err != nil {
				return err
			}
		}
		return start(ctx)
	}
}

// cancelHook asks the workflow of a run to end, if there is one that runs.
func (a *Activities) cancelHook(ctx context.Context, h *hookStep) error {
	err := a.Workflows.CancelWorkflow(ctx, h.workflowID(), "")
	if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
		return nil
	}
	return a.engineTrouble(err)
}

func (h *hookStep) workflowID() string {
	return delivery.HookWorkflowID(h.release.Namespace, h.release.Name, &h.run, h.id())
}

// checkDeed waits until an expression over live objects is true.
func (a *Activities) checkDeed(ctx context.Context, h *hookStep, c delivery.Context) (deed, error) {
	check, err := hook.NewCheck(ctx, h.hook.Check, c, h.release.Spec.TargetNamespace)
	if err != nil {
		return deed{}, err
	}
	return deed{
		start: func(ctx context.Context) error {
			if err := a.reachTarget(ctx, h); err != nil {
				return err
			}
			h.end()
			return nil
		},
		look: func(ctx context.Context) (bool, string, error) {
			return check.Look(ctx, hook.Target{Dynamic: h.target.Dynamic, Mapper: h.target.Mapper})
		},
		first: time.Second, last: 5 * time.Second,
	}, nil
}

// httpDeed sends the facts once; what may pass is tried again by the next attempt.
func (a *Activities) httpDeed(h *hookStep, c delivery.Context) (deed, error) {
	to, err := hook.URL(h.hook.HTTP, c)
	if err != nil {
		return deed{}, err
	}
	return deed{start: func(ctx context.Context) error {
		keys, err := a.hookKeys(ctx, h.release.Namespace)
		if err != nil {
			return err
		}
		return a.Sender.Send(ctx, to, keys, hook.FactsOf(h.release, &h.run))
	}}, nil
}

// hookKeys reads the Secret of a namespace for its hooks.
func (a *Activities) hookKeys(ctx context.Context, namespace string) (hook.Keys, error) {
	var secret corev1.Secret
	err := a.Hub.Get(ctx, types.NamespacedName{Namespace: namespace, Name: v1alpha1.HookSecretName}, &secret)
	if err != nil && !apierrors.IsNotFound(err) {
		return hook.Keys{}, fmt.Errorf("%w: read the Secret of the hooks: %w", apply.ErrHub, err)
	}
	if delivery.OwnsSecret(string(secret.Type)) {
		secret.Data = nil
	}
	return hook.KeysOf(secret.Data, namespace)
}

// workflowDeed runs a workflow of the user's own, or goes on with it when it runs already. Of its result only the status
// is looked at.
func (a *Activities) workflowDeed(h *hookStep, c delivery.Context) (deed, error) {
	w := h.hook.Workflow
	if err := a.Permits.Permit(h.release.Namespace, w); err != nil {
		return deed{}, err
	}
	input, err := hook.Input(w, c, hook.FactsOf(h.release, &h.run))
	if err != nil {
		return deed{}, err
	}
	id := h.workflowID()
	return deed{
		start: func(ctx context.Context) error {
			reuse := enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE // one that was stopped is begun anew
			if h.begun {
				reuse = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
			}
			left := time.Until(h.until())
			if left <= 0 { // a look at one that runs is all there is time for
				return nil
			}
			left = max(left, time.Second)
			_, err := a.Workflows.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
				ID: id, TaskQueue: w.TaskQueue, WorkflowExecutionTimeout: left,
				WorkflowIDReusePolicy: reuse,
				StaticSummary:         fmt.Sprintf("hook %s (%s) of Release %s", h.run.Name, h.run.Phase, h.input.Rollout.Key),
			}, w.Type, input)
			return a.engineTrouble(err)
		},
		look: func(ctx context.Context) (bool, string, error) {
			found, err := a.Workflows.DescribeWorkflowExecution(ctx, id, "")
			if err != nil {
				return false, "", a.engineTrouble(err)
			}
			info := found.GetWorkflowExecutionInfo()
			done, waiting, err := hook.Outcome(id, w.Type, info.GetType().GetName(), info.GetStatus().String())
			if err == nil && !done && !a.polled(ctx, w.TaskQueue) {
				waiting = fmt.Sprintf("workflow: %s waits for a worker: none polls task queue %s", id, w.TaskQueue)
			}
			return done, waiting, err
		},
		first: 500 * time.Millisecond, last: 5 * time.Second,
		end: func(ctx context.Context) error { return a.cancelHook(ctx, h) },
	}, nil
}

// polled reports whether a worker asks for tasks of a queue, or whether that is not known. Temporal remembers for minutes one
// that has stopped; one that works asks at least once in that time.
func (a *Activities) polled(ctx context.Context, queue string) bool {
	const lastSeen = 2 * time.Minute
	found, err := a.Workflows.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	return err != nil || slices.ContainsFunc(found.GetPollers(), func(p *taskqueuepb.PollerInfo) bool {
		return time.Since(p.GetLastAccessTime().AsTime()) < lastSeen
	})
}

// engineTrouble names what Temporal said to a request of a hook by its class.
func (a *Activities) engineTrouble(err error) error {
	if err == nil {
		return nil
	}
	return failure.Transient(v1alpha1.ReasonHookFailed, err, "workflow: Temporal did not take the request (%s)", typesOf(err))
}

// approvalDeed waits for somebody.
func (a *Activities) approvalDeed(h *hookStep, c delivery.Context) (deed, error) {
	digest := h.input.Rollout.Digest
	message, err := hook.Message(h.hook.Approval, c, digest)
	if err != nil {
		return deed{}, err
	}
	return deed{
		message: message,
		start:   func(context.Context) error { return nil },
		look: func(ctx context.Context) (bool, string, error) {
			by, err := a.hookApproval(ctx, h, digest)
			if err != nil {
				return false, "", fmt.Errorf("%w: %w", apply.ErrHub, err)
			}
			if by == "" {
				return false, message, nil
			}
			h.deed.done = "approved by " + by
			return true, "", nil
		},
		first: time.Second, last: 10 * time.Second,
	}, nil
}

// hookApproval says who lets a run pass, empty while nobody does.
func (a *Activities) hookApproval(ctx context.Context, h *hookStep, digest string) (by string, err error) {
	use, err := a.approval(ctx, h.release, h.run.Name, h.run.Rollout, digest)
	if err != nil {
		return "", err
	}
	if use == nil {
		return "", nil
	}
	return use.Spec.ApprovedBy, a.settle(ctx, use, v1alpha1.ApprovalStatus{State: v1alpha1.ApprovalUsed, Rollout: h.run.Rollout})
}

// sameHook reports whether a hook is still the one that was begun.
func sameHook(a, b *v1alpha1.Hook) bool { return equality.Semantic.DeepEqual(a, b) }
