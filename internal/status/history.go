package status

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// Bounds of a history, as the schema has them.
const (
	maxRecords = 10
	maxReason  = 1024
)

// record ends the last rollout in a phase, and puts it on top of the history.
func record(r *v1alpha1.Release, phase v1alpha1.RolloutPhase, reason, message string, now metav1.Time) {
	last := r.Status.Rollout
	if phase != v1alpha1.RolloutSuperseded {
		last.Phase = phase
	}
	if len(message) > maxReason {
		message = strings.ToValidUTF8(message[:maxReason], "")
	}
	entry := v1alpha1.RolloutRecord{
		Number: last.Number, Phase: phase, Reason: reason, Message: message, Digest: last.Digest, Revision: last.Revision,
		Cluster: last.ClusterName, ClusterIdentity: last.Cluster, Trigger: last.Trigger, Approval: last.Approval, Objects: last.Objects, Pruned: last.Pruned,
		StartTime: last.StartTime, EndTime: now,
	}
	r.Status.History = append([]v1alpha1.RolloutRecord{entry}, r.Status.History...)
	if len(r.Status.History) > maxRecords {
		r.Status.History = r.Status.History[:maxRecords]
	}
}
