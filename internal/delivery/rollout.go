package delivery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"kumodo.io/convoy/api/v1alpha1"
)

// InputsDigest is one digest over everything a render depends on, besides the code of convoy: the spec, the
// source, the context, which Cluster it is for and what it reads on the hub beside the source.
func InputsDigest(r *v1alpha1.Release, c *v1alpha1.Cluster, revision string, reads ...Read) string {
	inputs := struct {
		Format     int     `json:"format"`
		UID        string  `json:"uid"`
		Generation int64   `json:"generation"`
		Revision   string  `json:"revision"`
		Cluster    string  `json:"cluster"`
		Context    Context `json:"context"`
		Reads      []Read  `json:"reads,omitempty"`
	}{1, string(r.UID), r.Generation, revision, ClusterIdentity(c), NewContext(c, r), reads}
	data, err := json.Marshal(inputs) // maps are written with sorted keys
	if err != nil {
		panic(err) // strings and maps of strings always marshal
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// UpToDate reports whether a reconcile with these inputs has nothing to do: the last rollout concluded well
// from the same inputs, on the same cluster, which ClusterIdentity names.
func UpToDate(s *v1alpha1.ReleaseStatus, inputs, cluster string) bool {
	return s.InputsDigest == inputs && delivered(s, cluster) && s.RenderRef != nil && s.RenderRef.Digest == s.Rollout.Digest
}

// Failed reports whether the last rollout failed with these inputs, on the same cluster, and nobody has asked for another try since.
func Failed(r *v1alpha1.Release, inputs, cluster string) bool {
	s := &r.Status
	return s.InputsDigest == inputs && s.Rollout != nil && s.Rollout.Phase == v1alpha1.RolloutFailed && s.Rollout.Cluster == cluster &&
		s.RenderRef != nil && s.RenderRef.Digest == s.Rollout.Digest && s.LastHandledReconcileAt == r.Annotations[v1alpha1.AnnotationRequestedAt]
}

func delivered(s *v1alpha1.ReleaseStatus, cluster string) bool {
	return s.Rollout != nil && s.Rollout.Phase == v1alpha1.RolloutSucceeded && s.Rollout.Cluster == cluster
}

// NextRollout decides which rollout a render needs: 0 when the last one delivered this very render to this
// Cluster, the number of the last one when it is still to conclude with this render, else a new number.
func NextRollout(s *v1alpha1.ReleaseStatus, digest, cluster string) int64 {
	last := s.Rollout
	switch {
	case last == nil:
		return 1
	case last.Digest != digest || last.Cluster != cluster || last.Phase == v1alpha1.RolloutFailed:
		return last.Number + 1
	case last.Phase == v1alpha1.RolloutSucceeded:
		return 0
	}
	return last.Number
}

// Restored reports whether the Release comes from a backup and no rollout of it has succeeded yet. What is on the target may be
// newer than what it asks for.
func Restored(r *v1alpha1.Release) bool {
	if r.Annotations[v1alpha1.AnnotationNewLife] == string(r.UID) {
		return false
	}
	if last := r.Status.Rollout; last != nil && last.Phase == v1alpha1.RolloutSucceeded {
		return false
	}
	return !slices.ContainsFunc(r.Status.History, func(h v1alpha1.RolloutRecord) bool { return h.Phase == v1alpha1.RolloutSucceeded })
}

// NothingApplied reports whether it is certain that this life of the Release never had an object on a
// target. recorded says whether the hub holds an Inventory of it. A copy restored from a backup has another
// UID than the mark of its first life names, and is not certain.
func NothingApplied(r *v1alpha1.Release, recorded bool) bool {
	if recorded || r.Annotations[v1alpha1.AnnotationNewLife] != string(r.UID) {
		return false
	}
	return r.Status.Inventory == nil || r.Status.Inventory.State == v1alpha1.InventoryEmpty
}
