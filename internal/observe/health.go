package observe

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/internal/delivery"
)

// Verdict is the health of one object.
type Verdict string

// The verdicts.
const (
	// Current: the object is as its spec wishes. So is every object that has no status at all.
	Current Verdict = "Current"
	// InProgress: its controller has not seen the spec yet, or works on it.
	InProgress Verdict = "InProgress"
	// Failed: its controller says that it does not get there.
	Failed Verdict = "Failed"
	// Suspended: somebody paused or suspended it. It is not waited for.
	Suspended Verdict = "Suspended"
	// Terminating: it is being deleted.
	Terminating Verdict = "Terminating"
)

// Healthy reports whether there is nothing to wait for.
func (v Verdict) Healthy() bool { return v == Current || v == Suspended }

const beingDeleted = "it is being deleted"

// longestMessage bounds what is shown of a controller's own words, in bytes.
const longestMessage = 300

// Health judges a live object by kstatus, with these differences: a paused Deployment, a suspended CronJob or Job is
// Suspended; a workload that is wished to have no replicas, and has none, is Current; a Job is Current once it has
// completed, not once it has started; a Pod that ended in failure is Failed; and what is Ready by a condition of an earlier generation is
// InProgress. The message is one line and may hold
// words of the object's own controller, never of its spec or data.
func Health(o *unstructured.Unstructured) (Verdict, string) {
	if o.GetDeletionTimestamp() != nil {
		return Terminating, beingDeleted
	}
	if verdict, message := special(o); verdict != "" {
		return verdict, message
	}
	if delivery.UnobservedReady(o) {
		return InProgress, "its condition Ready is about an earlier generation"
	}
	result, err := compute(o)
	if err != nil {
		return InProgress, "its status cannot be understood"
	}
	switch result.Status {
	case status.CurrentStatus:
		return Current, oneLine(result.Message)
	case status.FailedStatus:
		return Failed, oneLine(result.Message)
	case status.TerminatingStatus:
		return Terminating, beingDeleted
	}
	return InProgress, oneLine(result.Message)
}

// Final reports a failure that is not worth a second look: its controller has given up.
func Final(o *unstructured.Unstructured) bool {
	gvk := o.GroupVersionKind()
	switch {
	case gvk.Group == "apps" && gvk.Kind == "Deployment":
		return !delivery.Unobserved(o) && hasCondition(o, "Progressing", "False", "ProgressDeadlineExceeded")
	case gvk.Group == "batch" && gvk.Kind == "Job":
		return hasCondition(o, "Failed", "True", "")
	case gvk.Group == "" && gvk.Kind == "Pod":
		return phase(o) == "Failed"
	}
	return false
}

// special has the rules that kstatus has not, or has otherwise.
func special(o *unstructured.Unstructured) (Verdict, string) {
	gvk := o.GroupVersionKind()
	switch gvk.Group + "/" + gvk.Kind {
	case "apps/Deployment":
		if truth(o, "spec", "paused") {
			return Suspended, "it is paused"
		}
		return withoutReplicas(o)
	case "apps/StatefulSet", "apps/ReplicaSet", "/ReplicationController":
		return withoutReplicas(o)
	case "batch/CronJob":
		if truth(o, "spec", "suspend") {
			return Suspended, "it is suspended"
		}
	case "batch/Job":
		return job(o)
	case "/Pod":
		if phase(o) == "Failed" {
			return Failed, "it ended in failure"
		}
	}
	return "", ""
}

func withoutReplicas(o *unstructured.Unstructured) (Verdict, string) {
	wished, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	has, _, _ := unstructured.NestedInt64(o.Object, "status", "replicas")
	if found && wished == 0 && has == 0 && !delivery.Unobserved(o) {
		return Current, "it is scaled to zero"
	}
	return "", ""
}

func job(o *unstructured.Unstructured) (Verdict, string) {
	switch {
	case hasCondition(o, "Complete", "True", ""):
		return Current, "it has completed"
	case hasCondition(o, "Failed", "True", ""):
		return Failed, "it failed"
	case truth(o, "spec", "suspend"):
		return Suspended, "it is suspended"
	}
	return InProgress, "it has not completed yet"
}

func phase(o *unstructured.Unstructured) string {
	p, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	return p
}

func truth(o *unstructured.Unstructured, fields ...string) bool {
	b, _, _ := unstructured.NestedBool(o.Object, fields...)
	return b
}

func hasCondition(o *unstructured.Unstructured, kind, state, reason string) bool {
	value, _, _ := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	list, _ := value.([]any)
	for _, c := range list {
		condition, _ := c.(map[string]any)
		if condition["type"] == kind && condition["status"] == state && (reason == "" || condition["reason"] == reason) {
			return true
		}
	}
	return false
}

// compute is kstatus. The library asserts the types of some status fields, which a server may have sent otherwise.
func compute(o *unstructured.Unstructured) (result *status.Result, err error) {
	defer func() {
		if r := recover(); r != nil {
			result, err = nil, fmt.Errorf("the status of a %s has an unexpected shape", o.GetKind())
		}
	}()
	return status.Compute(o)
}

// oneLine is a message of the far side on one line, cut.
func oneLine(text string) string {
	if len(text) > 4*longestMessage {
		text = text[:4*longestMessage]
	}
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, strings.Join(strings.Fields(text), " "))
	if len(text) <= longestMessage {
		return text
	}
	end := longestMessage - len("...")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "..."
}
