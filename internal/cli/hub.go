package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// fieldOwner is the name under which the commands write to the hub.
const fieldOwner = client.FieldOwner("convoy-cli")

// hubFlags say which hub is meant, as kubectl's flags of the same names do.
type hubFlags struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	userAgent string
}

func newHubFlags(s Settings, f *pflag.FlagSet) *hubFlags {
	h := &hubFlags{rules: clientcmd.NewDefaultClientConfigLoadingRules(), userAgent: s.UserAgent}
	f.StringVar(&h.rules.ExplicitPath, "kubeconfig", "", "kubeconfig of the hub; else KUBECONFIG, ~/.kube/config or the service account of the pod")
	clientcmd.BindOverrideFlags(&h.overrides, f, clientcmd.ConfigOverrideFlags{
		CurrentContext: clientcmd.FlagInfo{LongName: "context", Description: "context of the kubeconfig; else its current one"},
		ContextOverrideFlags: clientcmd.ContextOverrideFlags{
			Namespace: clientcmd.FlagInfo{LongName: "namespace", ShortName: "n", Description: "namespace on the hub; else that of the context"},
		},
		AuthOverrideFlags: clientcmd.AuthOverrideFlags{
			Impersonate:       clientcmd.FlagInfo{LongName: "as", Description: "user to impersonate on the hub"},
			ImpersonateGroups: clientcmd.FlagInfo{LongName: "as-group", Description: "group to impersonate on the hub; repeatable"},
		},
	})
	return h
}

// hub is a connection to the hub, with the rights of the caller.
type hub struct {
	client.WithWatch
	namespace string
}

func newScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	return s, errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s))
}

func (f *hubFlags) connect() (*hub, error) {
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules, &f.overrides)
	cfg, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("no hub: give --kubeconfig or --context, or set KUBECONFIG")
	}
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	cfg.QPS = -1 // the hub's own flow control is trusted
	cfg.UserAgent = f.userAgent
	known, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: known})
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return &hub{WithWatch: c, namespace: namespace}, nil
}

// onRelease runs a command that works on the one Release that its arguments name.
func (f *hubFlags) onRelease(do func(cmd *cobra.Command, h *hub, name string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		_, name, err := object(args, releaseKind)
		if err != nil {
			return err
		}
		h, err := f.connect()
		if err != nil {
			return err
		}
		return do(cmd, h, name)
	}
}

// read reads an object of the namespace by its name.
func (h *hub) read(ctx context.Context, k kind, name string, into client.Object) error {
	err := h.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, into)
	switch {
	case meta.IsNoMatchError(err):
		return noKinds()
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no %s %s/%s; the command get shows those that there are", k.Title, h.namespace, name)
	case err != nil:
		return fmt.Errorf("read %s %s/%s: %w", k.Title, h.namespace, name, err)
	}
	return nil
}

func noKinds() error {
	return errors.New("the hub does not know the kinds of convoy: choose another context, or install deploy/crd there")
}

// at is the same hub, in another namespace.
func (h *hub) at(namespace string) *hub { return &hub{WithWatch: h.WithWatch, namespace: namespace} }

// named is how messages call a Release.
func (h *hub) named(release string) string { return "Release " + h.namespace + "/" + release }

func (h *hub) release(ctx context.Context, name string) (*v1alpha1.Release, error) {
	r := &v1alpha1.Release{}
	return r, h.read(ctx, releaseKind, name, r)
}

func (h *hub) cluster(ctx context.Context, name string) (*v1alpha1.Cluster, error) {
	c := &v1alpha1.Cluster{}
	return c, h.read(ctx, clusterKind, name, c)
}

// list reads the object of the namespace that has a name, or none.
func (h *hub) list(ctx context.Context, name string, into client.ObjectList) error {
	return h.List(ctx, into, client.InNamespace(h.namespace), client.MatchingFields{metav1.ObjectNameField: name})
}

// living is a Release that is to be changed, which is of no use when it is being deleted.
func (h *hub) living(ctx context.Context, name string) (*v1alpha1.Release, error) {
	r, err := h.release(ctx, name)
	if err == nil && !r.DeletionTimestamp.IsZero() {
		return nil, fmt.Errorf("%s is being deleted", h.named(name))
	}
	return r, err
}

// change writes to a Release what a decision upon its newest state says.
func (h *hub) change(ctx context.Context, name string, decide func(*v1alpha1.Release) error) (*v1alpha1.Release, error) {
	for {
		r, err := h.living(ctx, name)
		if err != nil {
			return nil, err
		}
		before := r.DeepCopy()
		if err := decide(r); err != nil {
			return nil, fmt.Errorf("%s: %w", h.named(name), err)
		}
		err = h.Patch(ctx, r, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), fieldOwner)
		if apierrors.IsConflict(err) && ctx.Err() == nil {
			continue // somebody was faster: decide again
		}
		if err != nil {
			return nil, fmt.Errorf("change %s: %w", h.named(name), err)
		}
		return r, nil
	}
}
