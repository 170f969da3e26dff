package delivery

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// HubID is the identity of the hub that a kube-system namespace is of: its UID, or the one that an operator has given it,
// when the hub takes the place of another.
func HubID(kubeSystem metav1.Object) string {
	if given := kubeSystem.GetAnnotations()[v1alpha1.AnnotationHubID]; given != "" {
		return given
	}
	return string(kubeSystem.GetUID())
}

// Owner is the Release that owns objects on a target. A second hub has another HubID, so equal names on two
// hubs are two owners.
type Owner struct {
	// HubID is what the function of that name says.
	HubID     string
	Namespace string
	Name      string
}

// Key is the value of the label convoy.kumodo.io/owner: 32 hexadecimal digits.
func (o Owner) Key() string {
	sum := sha256.Sum256([]byte(o.HubID + "/" + o.Namespace + "/" + o.Name))
	return hex.EncodeToString(sum[:16])
}

// FieldManager is the name under which the Release applies, one per Release, so that the API server itself
// refuses a second owner of a field.
func (o Owner) FieldManager() string { return "convoy-" + o.Key() }

// String is namespace/name, as the annotation convoy.kumodo.io/release has it.
func (o Owner) String() string { return o.Namespace + "/" + o.Name }
