package hook

import (
	"context"
	"encoding/json"
	"strings"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/expr"
	"kumodo.io/convoy/internal/failure"
)

// Facts are what a server or a workflow is told of a run.
type Facts struct {
	Release   string             `json:"release"`
	Namespace string             `json:"namespace"`
	Cluster   string             `json:"cluster"`
	Rollout   int64              `json:"rollout"` // 0 is the deletion
	Phase     v1alpha1.HookPhase `json:"phase"`
	Hook      string             `json:"hook"`
	Digest    string             `json:"digest,omitempty"`
	Revision  string             `json:"revision,omitempty"`
	// ID is the same each time that one run is told of.
	ID string `json:"id"`
}

// FactsOf are the facts of one run.
func FactsOf(r *v1alpha1.Release, run *v1alpha1.HookStatus) Facts {
	f := Facts{
		Release: r.Name, Namespace: r.Namespace, Cluster: r.Spec.ClusterRef.Name, Rollout: run.Rollout, Phase: run.Phase,
		Hook: run.Name, ID: delivery.HookRunID(string(r.UID), run),
	}
	if r.Status.RenderRef != nil {
		f.Digest = r.Status.RenderRef.Digest
	}
	if r.Status.Source != nil {
		f.Revision = r.Status.Source.Revision
	}
	return f
}

// Applies evaluates when.
func Applies(ctx context.Context, h *v1alpha1.Hook, c delivery.Context) (bool, error) {
	if h.When == "" {
		return true, nil
	}
	var session expr.Session
	ok, err := session.Condition(ctx, "when", h.When, c.Values())
	return ok, verdict(err)
}

// Input is what the workflow of a hook gets.
func Input(h *v1alpha1.HookWorkflow, c delivery.Context, f Facts) (json.RawMessage, error) {
	if h.Input == "" {
		text, err := json.Marshal(f)
		return text, err
	}
	text, err := expr.Template("workflow.input", h.Input, c.Values())
	if err != nil {
		return nil, verdict(err)
	}
	if !json.Valid([]byte(text)) {
		return nil, failed("workflow.input: the template does not give JSON")
	}
	return json.RawMessage(text), nil
}

// Message is what those are told who are to approve.
func Message(h *v1alpha1.HookApproval, c delivery.Context, digest string) (string, error) {
	text, err := expr.Template("approval.message", h.Message, c.Values())
	if err != nil {
		return "", verdict(err)
	}
	text = strings.Join(strings.Fields(text), " ")
	if text != "" {
		text = ": " + text
	}
	return "it waits for an Approval of " + digest + text, nil
}

func failed(format string, args ...any) error {
	return failure.Terminal(v1alpha1.ReasonHookFailed, nil, format, args...)
}

func pending(message string) error {
	return failure.Transient(v1alpha1.ReasonHookFailed, nil, "%s", message)
}

// verdict makes a failure of expr one of a hook.
func verdict(err error) error {
	if f, ok := failure.As(err); ok && f.Terminal {
		return failed("%s", f.Message)
	}
	return err
}
