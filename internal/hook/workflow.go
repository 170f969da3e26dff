package hook

import (
	"fmt"
	"slices"
	"strings"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Permit is a workflow that hooks of one hub namespace, or of all with *, may run.
type Permit struct{ Namespace, Type, TaskQueue string }

// Permits are all that the operator permits. It is the value of a flag that may be given again.
type Permits []Permit

// Set adds a permit, written as namespace/type@taskQueue.
func (p *Permits) Set(text string) error {
	namespace, rest, ok := strings.Cut(text, "/")
	at := strings.LastIndexByte(rest, '@')
	if !ok || namespace == "" || at <= 0 || at == len(rest)-1 || namespace != "*" && strings.Contains(namespace, "*") {
		return fmt.Errorf("%q is not written as namespace/type@taskQueue; * stands for any namespace", text)
	}
	permit := Permit{namespace, rest[:at], rest[at+1:]}
	if strings.Contains(permit.Type+permit.TaskQueue, "*") {
		return fmt.Errorf("%q: type and task queue are written out; * is for the namespace only", text)
	}
	if reserved(permit.Type, permit.TaskQueue) {
		return fmt.Errorf("%q: that type or task queue is convoy's own, which no hook may run", text)
	}
	*p = append(*p, permit)
	return nil
}

// String is the list as it would be given.
func (p *Permits) String() string {
	texts := make([]string, len(*p))
	for i, permit := range *p {
		texts[i] = permit.Namespace + "/" + permit.Type + "@" + permit.TaskQueue
	}
	return strings.Join(texts, ",")
}

// Type names the value in the help.
func (p *Permits) Type() string { return "namespace/type@taskQueue" }

// Permit refuses a workflow that is not on the list for the namespace of a Release.
func (p *Permits) Permit(namespace string, h *v1alpha1.HookWorkflow) error {
	if reserved(h.Type, h.TaskQueue) {
		return failed("workflow: type %s on task queue %s is convoy's own, which no hook may run", h.Type, h.TaskQueue)
	}
	for _, permit := range *p {
		if (permit.Namespace == "*" || permit.Namespace == namespace) && permit.Type == h.Type && permit.TaskQueue == h.TaskQueue {
			return nil
		}
	}
	return failed("workflow: type %s on task queue %s is not permitted in this namespace: the operator adds --allow-hook-workflow=%s/%s@%s",
		h.Type, h.TaskQueue, namespace, h.Type, h.TaskQueue)
}

// reserved: what convoy registers, and every task queue with its name, which another convoy may serve.
func reserved(workflowType, queue string) bool {
	own := []string{delivery.WorkflowCluster, delivery.WorkflowRelease, delivery.WorkflowRollout, delivery.WorkflowSource}
	return slices.Contains(own, workflowType) || queue == delivery.QueueMain || strings.HasPrefix(queue, delivery.QueueMain+"-")
}

// Outcome judges a workflow by its status, in the words of Temporal.
func Outcome(id, wantType, isType, status string) (done bool, waiting string, err error) {
	if isType != wantType {
		return false, "", failed("workflow: %s is the ID of a workflow of another type", id)
	}
	switch status {
	case "Completed":
		return true, "", nil
	case "Running", "ContinuedAsNew":
		return false, fmt.Sprintf("workflow: %s has not ended", id), nil
	case "Paused":
		return false, fmt.Sprintf("workflow: %s is paused", id), nil
	}
	return false, "", failed("workflow: %s ended as %s", id, status)
}
