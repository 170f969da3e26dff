package activities

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// The types of this file are kept in workflow histories: they may grow, but no field changes its meaning.

// What workflows have to tell apart in results.
const (
	// ReasonDelivered is the reason of a rollout that did all it was to do.
	ReasonDelivered = v1alpha1.ReasonDelivered
	// ReasonSuspended is the reason of a Release that is suspended.
	ReasonSuspended = v1alpha1.ReasonSuspended
	// PhaseFailed is the phase of a rollout that concluded with a failure.
	PhaseFailed = v1alpha1.RolloutFailed
)

// Life says whether the object that an input names still lives that life.
type Life string

// The lives of an object.
const (
	Alive Life = "Alive"
	// Deleting: it has a deletion timestamp.
	Deleting Life = "Deleting"
	// Gone: it does not exist, or another object has its name.
	Gone Life = "Gone"
)

// ProbeInput asks for a probe of a Cluster.
type ProbeInput struct {
	Key delivery.Key `json:"key"`
	// Failures is how many probes in a row failed before.
	Failures int `json:"failures,omitempty"`
	// After is how long a probe waits that follows a forced one which failed, and Last what that one said.
	After time.Duration `json:"after,omitempty"`
	Last  string        `json:"last,omitempty"`
	// Forced makes a failed probe a result instead of an error, so that it is not retried.
	Forced bool `json:"forced,omitempty"`
}

// ProbeResult is the verdict of a probe.
type ProbeResult struct {
	Life              Life   `json:"life"`
	Reachable         bool   `json:"reachable"`
	Reason            string `json:"reason,omitempty"`
	Message           string `json:"message,omitempty"`
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Retry: it failed in a way that waiting may heal.
	Retry bool `json:"retry,omitempty"`
	// RetryAfter is when to try again then.
	RetryAfter metav1.Duration `json:"retryAfter,omitzero"`
}

// ObjectInput names the object of an activity that needs no more.
type ObjectInput struct {
	Key delivery.Key `json:"key"`
}

// ObjectResult says what became of it.
type ObjectResult struct {
	Life Life `json:"life"`
	// Hooks are due before the deletion goes on; nothing else was done.
	Hooks []delivery.HookRef `json:"hooks,omitempty"`
	// Generation is that of the spec which has these hooks.
	Generation int64 `json:"generation,omitempty"`
}

// FetchInput names a Release, and what is known of its source.
type FetchInput struct {
	Key delivery.Key `json:"key"`
	// Word spares a look at the source while it is about the source that the Release names now.
	Word delivery.Word `json:"word,omitzero"`
	// Fresh: look nevertheless.
	Fresh bool `json:"fresh,omitempty"`
}

// FetchResult is what a source holds.
type FetchResult struct {
	Life     Life   `json:"life"`
	Revision string `json:"revision,omitempty"`
	Digest   string `json:"digest,omitempty"`
	// Word is what is known of the source now. When it has a reason, nothing was fetched.
	Word     delivery.Word `json:"word,omitzero"`
	Cluster  string        `json:"cluster,omitempty"`
	Interval time.Duration `json:"interval,omitempty"`
	// Suspended: nothing is to be delivered, and what is under way is to stop.
	Suspended bool `json:"suspended,omitempty"`
	// Leftovers: something is to be removed from Clusters that the Release has moved away from.
	Leftovers bool `json:"leftovers,omitempty"`
}

// LookInput asks for a look at a source on behalf of all Releases that use it.
type LookInput struct {
	Poll delivery.Poll `json:"poll"`
	// Last is what they were told last.
	Last delivery.Word `json:"last,omitzero"`
	// Joined: one of them may have missed it.
	Joined bool `json:"joined,omitempty"`
	// Count: find out whether there is any.
	Count bool `json:"count,omitempty"`
}

// LookResult is what the look found.
type LookResult struct {
	Word delivery.Word `json:"word"`
	// Users is how many Releases use the source, nil when they were not counted.
	Users *int `json:"users,omitempty"`
}

// RevisionInput names a Release at a revision of its source.
type RevisionInput struct {
	Key      delivery.Key `json:"key"`
	Revision string       `json:"revision"`
	Digest   string       `json:"digest"`
	// Listed: nothing is known to have changed. A rollout that failed is then not tried again.
	Listed bool `json:"listed,omitempty"`
}

// CheckResult is what the gate found when it was open.
type CheckResult struct {
	Life Life `json:"life"`
	// Waited: the gate was closed at first, so the source may be older than the wait.
	Waited bool `json:"waited,omitempty"`
	// UpToDate: the last rollout delivered these very inputs.
	UpToDate bool `json:"upToDate,omitempty"`
	// Failed: the last rollout failed with these very inputs, for a Reason, and is not tried again for this look.
	Failed  bool   `json:"failed,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// RenderResult is what a render calls for.
type RenderResult struct {
	Life Life `json:"life"`
	// Closed: the gate closed, or the source moved on, since it was checked; begin again.
	Closed bool `json:"closed,omitempty"`
	// Reason and Message say why nothing can be rolled out; empty when it can.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Objects int    `json:"objects,omitempty"`
	// Rollout is the number of the rollout that is due, 0 when none is.
	Rollout int64 `json:"rollout,omitempty"`
	// Held: one is due, and waits for what the reason says; until then, if time alone helps.
	Held  bool      `json:"held,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Hooks of the rollout.
	Hooks []delivery.HookRef `json:"hooks,omitempty"`
}

// StepResult is how far a step brought its rollout.
type StepResult struct {
	// Superseded: the Release asks for something else by now; nothing was done.
	Superseded bool `json:"superseded,omitempty"`
	// Phase is set by the step that concludes the rollout.
	Phase   v1alpha1.RolloutPhase `json:"phase,omitempty"`
	Reason  string                `json:"reason,omitempty"`
	Message string                `json:"message,omitempty"`
	// Applied, Pruned and Healthy count objects.
	Applied int `json:"applied,omitempty"`
	Pruned  int `json:"pruned,omitempty"`
	Healthy int `json:"healthy,omitempty"`
	// Prune is how many objects are to be pruned; Pending how many were not healthy when they were applied.
	Prune   int `json:"prune,omitempty"`
	Pending int `json:"pending,omitempty"`
	// Leftovers is on how many Clusters that the Release has moved away from something is to be removed.
	Leftovers int `json:"leftovers,omitempty"`
}

// PruneInput asks to prune for a rollout.
type PruneInput struct {
	Rollout delivery.RolloutInput `json:"rollout"`
	// Last: nothing is to be awaited afterwards, so this step concludes the rollout.
	Last bool `json:"last,omitempty"`
}

// HealthInput asks to wait for the health of a rollout.
type HealthInput struct {
	Rollout delivery.RolloutInput `json:"rollout"`
	// Started is when the wait began, so that a retried wait does not begin anew.
	Started time.Time `json:"started"`
}

// HookInput asks for one run of a hook.
type HookInput struct {
	// Rollout that it belongs to. One of the deletion has number 0, and only the key and the Cluster.
	Rollout delivery.RolloutInput `json:"rollout"`
	Hook    delivery.HookRef      `json:"hook"`
	// Last: nothing is left of the rollout, so a success concludes it.
	Last bool `json:"last,omitempty"`
}

// ObserveInput asks for the observation of a Cluster.
type ObserveInput struct {
	Key delivery.Key `json:"key"`
}

// ObserveResult is that nobody needs it any more.
type ObserveResult struct{}

// UnobservedResult is of how many Releases it was said that nobody observes them.
type UnobservedResult struct {
	Releases int `json:"releases,omitempty"`
}

// CorrectInput asks for the correction of what drifted.
type CorrectInput struct {
	Key delivery.Key `json:"key"`
}

// CorrectResult is what a correction came to.
type CorrectResult struct {
	Life Life `json:"life"`
	// Applied is how many objects were applied again; 0 when nothing was to be corrected any more.
	Applied int `json:"applied,omitempty"`
	// Until is when a window of the sync policy opens in which it may be corrected.
	Until time.Time `json:"until,omitzero"`
	// Message says what the target refused.
	Message string `json:"message,omitempty"`
}
