package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/deploy"
	"kumodo.io/convoy/deploy/crds"
)

// hubCheck is which hub a preflight looks at, if any.
type hubCheck struct {
	Kubeconfig, Context string
}

// hubVerdict is what it found there.
type hubVerdict struct {
	// Checked are the objects that were looked at.
	Checked int `json:"checked"`
	// Older are CRDs that have to be upgraded before this build is started.
	Older []lacking `json:"older"`
	// Objects are those with fields that this build does not know or takes differently.
	Objects []lostObject `json:"objects"`
}

// lostObject is an object of the hub that this build does not take as it is.
type lostObject struct {
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Fields    []string `json:"fields"`
}

func (h *hubCheck) bind(f *pflag.FlagSet) {
	f.StringVar(&h.Kubeconfig, "kubeconfig", "", "kubeconfig of the hub; without it and --context the hub is not looked at")
	f.StringVar(&h.Context, "context", "", "context of the kubeconfig; else its current one")
}

// check looks at the hub with the rights of the caller; it returns nil when none is named.
func (h *hubCheck) check(ctx context.Context) (*hubVerdict, error) {
	if h.Kubeconfig == "" && h.Context == "" {
		return nil, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = h.Kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: h.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	cfg.QPS, cfg.UserAgent = -1, "convoy/"+version
	return checkHub(ctx, cfg)
}

func checkHub(ctx context.Context, cfg *rest.Config) (*hubVerdict, error) {
	openapi, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	objects, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	own, err := deploy.CRDs()
	if err != nil {
		return nil, err
	}
	v := &hubVerdict{Older: []lacking{}, Objects: []lostObject{}}
	older, err := lacks(openapi, own)
	if err != nil {
		return nil, err
	}
	v.Older = append(v.Older, older...)
	for _, crd := range own {
		if err := v.look(ctx, objects, crd); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// look reads all objects of a kind.
func (v *hubVerdict) look(ctx context.Context, objects dynamic.Interface, crd *apiextensionsv1.CustomResourceDefinition) error {
	for _, l := range v.Older {
		if l.CRD == crd.Name && l.Lacks[0] == absentKind {
			return nil
		}
	}
	schema, err := crds.SchemaOf(crd, v1alpha1.GroupVersion.Version)
	if err != nil {
		return err
	}
	list := objects.Resource(v1alpha1.GroupVersion.WithResource(crd.Spec.Names.Plural))
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list.List(ctx, o) })
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		o, ok := item.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%T is no object", item)
		}
		v.Checked++
		if fields := schema.Loses(o.Object); len(fields) > 0 {
			v.Objects = append(v.Objects, lostObject{crd.Spec.Names.Kind, o.GetNamespace(), o.GetName(), fields})
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the %s of the hub: %w", crd.Spec.Names.Plural, err)
	}
	return nil
}

// write prints it for people.
func (v *hubVerdict) write(out io.Writer) {
	if v == nil {
		fmt.Fprintln(out, "The hub was not looked at; --kubeconfig or --context names it.")
		return
	}
	fmt.Fprintf(out, "The hub has %d objects of convoy, of which %d have fields that this build does not take.\n", v.Checked, len(v.Objects))
	for _, o := range v.Objects {
		fmt.Fprintf(out, "%s %s/%s: %s\n", o.Kind, o.Namespace, o.Name, first(o.Fields, 10))
	}
	for _, l := range v.Older {
		fmt.Fprintf(out, "CRD %s on the hub is older than this build, and has to be upgraded first: %s\n", l.CRD, first(l.Lacks, 10))
	}
}
