package render

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Hook is an object that a chart has made at certain points of a rollout or of the deletion, instead of delivering it.
type Hook struct {
	// Name tells it from the other hooks of each of its events: kind and name of the object, and its namespace if it is not that
	// of the chart.
	Name string `json:"name"`
	// Events are the points, as charts call them, each of which delivery knows.
	Events []string `json:"events"`
	// Weight orders the hooks of an event: the least is first.
	Weight int `json:"weight,omitempty"`
	// DeleteSucceeded and DeleteFailed: when the hooks of the event are over, the object goes if its run ended so.
	DeleteSucceeded bool `json:"deleteSucceeded,omitempty"`
	DeleteFailed    bool `json:"deleteFailed,omitempty"`
	// Object that is made.
	Object *unstructured.Unstructured `json:"-"`
}

// For gives the hooks of an event, in the order in which they run.
func (c Content) For(event string) []Hook {
	var found []Hook
	for _, h := range c.Hooks {
		if slices.Contains(h.Events, event) {
			found = append(found, h)
		}
	}
	return found
}

// NameFor names the hook at one of its events, as no hook of a Release's spec can be named.
func (h Hook) NameFor(event string) string { return event + "." + h.Name }

// HookNames are the names of all hooks of a Release whose render this is, whenever they run: those of its spec, and of the chart.
func (c Content) HookNames(r *v1alpha1.Release) []string {
	var names []string
	for i := range r.Spec.Hooks {
		names = append(names, r.Spec.Hooks[i].Name)
	}
	for _, h := range c.Hooks {
		for _, event := range h.Events {
			names = append(names, h.NameFor(event))
		}
	}
	return names
}

// Annotations of Helm that make an object a hook.
const (
	hookAnnotation   = "helm.sh/hook"
	weightAnnotation = "helm.sh/hook-weight"
	deleteAnnotation = "helm.sh/hook-delete-policy"
)

// maxHooksOfEvent is how many hooks of one event there may be: the status of a Release remembers as many runs.
const maxHooksOfEvent = 16

// hookOf reads the annotations of a hook. Tests are not among its events; unknown says whether there is one that convoy has no
// point for.
func hookOf(annotations map[string]any) (h *Hook, unknown bool) {
	h = &Hook{}
	for event := range words(annotations[hookAnnotation]) {
		switch {
		case testEvents[event]:
		case !delivery.IsChartEvent(event):
			return h, true
		default:
			h.Events = append(h.Events, event)
		}
	}
	slices.Sort(h.Events)
	h.Events = slices.Compact(h.Events)
	text, _ := annotations[weightAnnotation].(string)
	h.Weight, _ = strconv.Atoi(text) // as for Helm, what is no number is 0
	for policy := range words(annotations[deleteAnnotation]) {
		h.DeleteSucceeded = h.DeleteSucceeded || policy == "hook-succeeded"
		h.DeleteFailed = h.DeleteFailed || policy == "hook-failed"
	}
	return h, false
}

var testEvents = map[string]bool{"test": true, "test-success": true, "test-failure": true}

// words are those of a list in an annotation.
func words(value any) func(yield func(string) bool) {
	text, _ := value.(string)
	return func(yield func(string) bool) {
		for word := range strings.SplitSeq(text, ",") {
			if !yield(strings.ToLower(strings.TrimSpace(word))) {
				return
			}
		}
	}
}

// nameHooks gives the hooks their names. Their objects are checked by now.
func nameHooks(found []located, chartNamespace string) error {
	named := map[string]string{}
	perEvent := map[string]int{}
	for _, o := range found {
		if o.hook == nil {
			continue
		}
		o.hook.Name = o.GetKind() + "." + o.GetName()
		if ns := o.GetNamespace(); ns != "" && ns != chartNamespace {
			o.hook.Name = o.GetKind() + "." + ns + "." + o.GetName()
		}
		for _, event := range o.hook.Events {
			key := o.hook.NameFor(event)
			if other, twice := named[key]; twice {
				return invalid("two hooks of the chart would have the name %s: in %s and in %s", delivery.Short(key), other, o.where)
			}
			named[key] = o.where
			if perEvent[event]++; perEvent[event] > maxHooksOfEvent {
				return invalid("the chart has more than %d hooks for %s; turn some off with the chart's values, or all with spec.render.helm.disableHooks", maxHooksOfEvent, event)
			}
		}
	}
	return nil
}

// refusedHook says why the object of a hook cannot be made at a point of a rollout; empty when it can.
func refusedHook(o located, unknown bool) string {
	gk := o.GroupVersionKind().GroupKind()
	switch {
	case unknown:
		return fmt.Sprint(o.GetAnnotations()[hookAnnotation])
	case delivery.IsLasting(gk):
		return "it would be deleted before each run, with all that it holds"
	}
	return ""
}

// compareHooks orders by weight, then as objects are applied.
func compareHooks(a, b located) int {
	return cmp.Or(cmp.Compare(a.hook.Weight, b.hook.Weight), compareObjects(a, b))
}
