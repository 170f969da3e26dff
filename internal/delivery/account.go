package delivery

import "kumodo.io/convoy/api/v1alpha1"

// ServiceAccounts are the operator's rules about the service accounts that Releases act as on their targets.
type ServiceAccounts struct {
	// Default is the name for Releases that name none; "" for none.
	Default string
	// Required refuses Releases that have none then.
	Required bool
}

// ServiceAccount is one of a target; without a name it is none.
type ServiceAccount struct{ Namespace, Name string }

// String is its namespace and name, or "".
func (s ServiceAccount) String() string {
	if s.Name == "" {
		return ""
	}
	return s.Namespace + "/" + s.Name
}

// User is the name that API servers know it by.
func (s ServiceAccount) User() string { return "system:serviceaccount:" + s.Namespace + ":" + s.Name }

// ActsAs is the service account that a Release acts as on its targets, in the namespace there that is called as that of the
// Release; none when it acts with the credentials of the Cluster. It is not permitted when one is required and none is named.
func (s ServiceAccounts) ActsAs(r *v1alpha1.Release) (account ServiceAccount, permitted bool) {
	name := r.Spec.ServiceAccountName
	if name == "" {
		name = s.Default
	}
	return ServiceAccount{Namespace: r.Namespace, Name: name}, name != "" || !s.Required
}
