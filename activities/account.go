package activities

import (
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/failure"
)

// targetOf is how the domain packages see a target that a Release acts on: as its service account, where it has one, in
// the namespace of the target that is called as that of the Release. A Release without one, where one is required, is a
// terminal failure.
func (a *Activities) targetOf(conn *connect.Client, r *v1alpha1.Release) (apply.Target, error) {
	t := apply.Target{Dynamic: conn.Dynamic, Metadata: conn.Metadata, Own: conn.Metadata, Mapper: conn.Mapper, Discovery: conn.Discovery}
	account, permitted := a.ServiceAccounts.ActsAs(r)
	if !permitted {
		return t, failure.Terminal(v1alpha1.ReasonServiceAccountRequired, nil,
			"every Release has to act as a service account of its target: name one in spec.serviceAccountName")
	}
	t.ServiceAccount = account.String()
	if t.ServiceAccount == "" {
		return t, nil
	}
	var err error
	t.Dynamic, t.Metadata, err = conn.As(account.User())
	return t, err
}
