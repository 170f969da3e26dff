package delivery

import "kumodo.io/convoy/api/v1alpha1"

// ServiceAccounts are the operator's rules about the service accounts that Releases act as on their targets.
type ServiceAccounts struct {
	// Default is the name for Releases that name none; "" for none.
	Default string
	// Required refuses Releases that have none then.
	Required bool
}

// ActsAs is the name of the service account that a Release acts as on its targets; "" when it acts with the credentials
// of the Cluster. It is not permitted when one is required and none is named.
func (s ServiceAccounts) ActsAs(r *v1alpha1.Release) (name string, permitted bool) {
	if name = r.Spec.ServiceAccountName; name == "" {
		name = s.Default
	}
	return name, name != "" || !s.Required
}
