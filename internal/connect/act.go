package connect

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// As gives clients that act as another user, with the permissions of that user only. They share the connections of this
// one. The server adds the groups of a service account by itself.
func (c *Client) As(user string) (dynamic.Interface, metadata.Interface, error) {
	acting := httpClient(transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{UserName: user}, c.link))
	objects, err := dynamic.NewForConfigAndClient(c.config, acting)
	if err != nil {
		return nil, nil, fmt.Errorf("build the client of a service account: %w", err)
	}
	marks, err := metadata.NewForConfigAndClient(c.config, acting)
	if err != nil {
		return nil, nil, fmt.Errorf("build the metadata client of a service account: %w", err)
	}
	return objects, marks, nil
}

// restConfig is what the clients of a target have in common. Warnings go to whoever listens, and nowhere else.
func restConfig(server string) *rest.Config {
	return &rest.Config{Host: server, UserAgent: userAgent, QPS: -1, WarningHandlerWithContext: listeners{}}
}

type listenerKey struct{}

// Listen makes a context whose requests tell heard of the warnings in their answers. Requests of other contexts drop
// them.
func Listen(ctx context.Context, heard func(text string)) context.Context {
	return context.WithValue(ctx, listenerKey{}, heard)
}

// listeners hands warnings to the listener of the request's context.
type listeners struct{}

// HandleWarningHeaderWithContext is that of a rest.WarningHandlerWithContext.
func (listeners) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	const miscellaneous = 299 // what API servers send
	if heard, ok := ctx.Value(listenerKey{}).(func(string)); ok && code == miscellaneous && text != "" {
		heard(text)
	}
}
