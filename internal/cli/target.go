package cli

import (
	"context"
	"fmt"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/failure"
)

// target connects to a Cluster as the worker does for a Release, from here. done closes the connection.
func (s *Settings) target(ctx context.Context, h *hub, c *v1alpha1.Cluster, r *v1alpha1.Release) (t apply.Target, done func(), err error) {
	policy, options, accounts, err := s.Target.Options()
	if err != nil {
		return t, nil, err
	}
	account, permitted := accounts.ActsAs(r)
	if !permitted {
		return t, nil, fmt.Errorf("Release %s/%s acts as no service account: name one in spec.serviceAccountName, or leave out --require-service-account", r.Namespace, r.Name) //nolint:staticcheck // a kind begins with a capital
	}
	pool := connect.NewPool(h, dial.New(policy), options)
	conn, err := pool.Client(ctx, c)
	if err != nil {
		pool.Close()
		if f, ok := failure.As(err); ok {
			return t, nil, fmt.Errorf("Cluster %s/%s: %s", c.Namespace, c.Name, f.Message) //nolint:staticcheck // a kind begins with a capital
		}
		return t, nil, fmt.Errorf("connect to Cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	t = apply.Target{Dynamic: conn.Dynamic, Metadata: conn.Metadata, Own: conn.Metadata, Mapper: conn.Mapper, Discovery: conn.Discovery}
	if t.ServiceAccount = account.String(); t.ServiceAccount != "" {
		if t.Dynamic, t.Metadata, err = conn.As(account.User()); err != nil {
			pool.Close()
			return t, nil, err
		}
	}
	return t, pool.Close, nil
}
