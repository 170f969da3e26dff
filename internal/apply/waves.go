package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// wave is what is deleted at the same time.
type wave struct {
	stage   delivery.Stage
	entries []v1alpha1.InventoryEntry
}

// wavesOf is the stages in reverse, with custom resources before the workloads, as one of these may be the operator
// that lets them go. Role bindings come last where convoy acts as a service account, which may live on one of them.
func wavesOf(entries []v1alpha1.InventoryEntry, bindingsLast bool) []wave {
	gates := wave{stage: delivery.StageGates}
	custom := wave{stage: delivery.StageWorkloads}
	workloads := wave{stage: delivery.StageWorkloads}
	config := wave{stage: delivery.StageConfig}
	definitions := wave{stage: delivery.StageDefinitions}
	bindings := wave{stage: delivery.StageConfig}
	for _, e := range entries {
		w := &workloads
		switch gk := RefOf(e).GroupKind(); delivery.StageOf(gk) {
		case delivery.StageGates:
			w = &gates
		case delivery.StageConfig:
			w = &config
			if bindingsLast && isBinding(RefOf(e)) {
				w = &bindings
			}
		case delivery.StageDefinitions:
			w = &definitions
		case delivery.StageWorkloads:
			if isCustom(gk) {
				w = &custom
			}
		}
		w.entries = append(w.entries, e)
	}
	var out []wave
	for _, w := range []wave{gates, custom, workloads, config, definitions, bindings} {
		if len(w.entries) > 0 {
			out = append(out, w)
		}
	}
	return out
}

func isBinding(ref delivery.ObjectRef) bool {
	return ref.Group == "rbac.authorization.k8s.io" && (ref.Kind == "RoleBinding" || ref.Kind == "ClusterRoleBinding")
}

func isCustom(gk schema.GroupKind) bool {
	switch gk.Group {
	case "", "apps", "batch", "autoscaling":
		return false
	}
	return true
}

// heldBack finds an object of an earlier wave that has to go before this wave may.
func (r *remover) heldBack(w wave) (delivery.ObjectRef, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var blocker delivery.ObjectRef
	blocked := false
	for ref, l := range r.looks {
		holds := l.verdict == refused || l.verdict == unseen && w.stage == delivery.StageDefinitions
		if holds && (!blocked || ref.Compare(blocker) < 0) {
			blocker, blocked = ref, true
		}
	}
	return blocker, blocked
}

// hold notes why entries that have no verdict, or are not gone yet, have to wait. What is known better stays.
func (r *remover) hold(entries []v1alpha1.InventoryEntry, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		if _, known := r.looks[RefOf(e)]; !known {
			r.looks[RefOf(e)] = look{remains, fmt.Sprintf(format, args...)}
		}
	}
}

// collect turns the verdicts into the result.
func (r *remover) collect(entries []v1alpha1.InventoryEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		ref := RefOf(e)
		l := r.looks[ref]
		problem := ObjectError{Ref: ref, Reason: v1alpha1.ReasonPruneFailed, Message: l.message, Terminal: l.verdict == refused}
		switch l.verdict {
		case gone:
			r.result.Removed++
			r.done = append(r.done, ref)
		case left:
			r.result.Left = append(r.result.Left, ref)
			r.done = append(r.done, ref)
		case survives:
			r.result.Survivors = append(r.result.Survivors, problem)
		case refused:
			r.result.Failed = append(r.result.Failed, problem)
		case unseen, remains:
			r.result.Waiting = append(r.result.Waiting, problem)
		}
	}
}
