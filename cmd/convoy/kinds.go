package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/deploy"
	"kumodo.io/convoy/deploy/crds"
)

// kindsPeriod is how often the hub is asked for its CRDs while it lacks something.
const kindsPeriod = 5 * time.Second

// absentKind is what a hub lacks that has no CRD.
const absentKind = "it is not there"

// lacking is what a CRD of the hub does not have of what this build needs.
type lacking struct {
	CRD   string   `json:"crd"`
	Lacks []string `json:"lacks"`
}

// lacks says what the CRDs of a hub do not have. It asks for the OpenAPI of the group, which every account may read.
func lacks(openapi discovery.OpenAPIV3SchemaInterface, own []*apiextensionsv1.CustomResourceDefinition) ([]lacking, error) {
	paths, err := openapi.OpenAPIV3().Paths()
	if err != nil {
		return nil, fmt.Errorf("ask the hub for its kinds: %w", err)
	}
	document := []byte("{}")
	if group := paths["apis/"+v1alpha1.GroupVersion.String()]; group != nil {
		if document, err = group.Schema("application/json"); err != nil {
			return nil, fmt.Errorf("ask the hub for its kinds: %w", err)
		}
	}
	var all []lacking
	for _, crd := range own {
		hub, err := crds.Published(document, v1alpha1.GroupVersion.Group, v1alpha1.GroupVersion.Version, crd.Spec.Names.Kind)
		if err != nil {
			return nil, err
		}
		l := lacking{CRD: crd.Name, Lacks: []string{absentKind}}
		if hub != nil {
			l.Lacks = crds.Lacks(hub, crd)
		}
		if len(l.Lacks) > 0 {
			all = append(all, l)
		}
	}
	return all, nil
}

// kinds is whether the hub has what this build needs of its CRDs.
type kinds struct {
	openapi discovery.OpenAPIV3SchemaInterface
	own     []*apiextensionsv1.CustomResourceDefinition
	period  time.Duration
	log     *slog.Logger
	found   atomic.Bool
}

func newKinds(cfg *rest.Config, log *slog.Logger) (*kinds, error) {
	openapi, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	own, err := deploy.CRDs()
	return &kinds{openapi: openapi, own: own, period: kindsPeriod, log: log}, err
}

// ready fails while the hub lacks something.
func (k *kinds) ready() error {
	if !k.found.Load() {
		return errors.New("the CRDs on the hub have not been found to be those of this convoy, or newer")
	}
	return nil
}

// await waits until the hub lacks nothing, or ctx is done. What older CRDs do not know, a hub drops without a word, and with it what convoy must not
// forget. A process that waits goes on once they are upgraded; and it is not ready, which leaves the pods of before at work.
func (k *kinds) await(ctx context.Context) (found bool) {
	var said time.Time
	for {
		missing, err := lacks(k.openapi, k.own)
		if apierrors.IsForbidden(err) {
			k.log.Warn("the hub does not let convoy see whether its CRDs are older than this convoy", "error", err)
			missing, err = nil, nil
		}
		if err == nil && len(missing) == 0 {
			k.found.Store(true)
			return true
		}
		if time.Since(said) >= time.Minute {
			said = time.Now()
			k.complain(missing, err)
		}
		timer := time.NewTimer(k.period)
		select {
		case <-ctx.Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
	}
}

func (k *kinds) complain(missing []lacking, err error) {
	if err != nil {
		k.log.Warn("the hub cannot be asked for its CRDs yet; waiting for it", "error", err)
	}
	for _, l := range missing {
		k.log.Error("CRD "+l.CRD+" on the hub is older than this convoy: kubectl apply --server-side -f deploy/crd, or upgrade the chart with crds.enabled; waiting for it",
			"lacks", first(l.Lacks, 10))
	}
}

// first is a list for people, which does not go on for ever.
func first(all []string, most int) string {
	if more := len(all) - most; more > 0 {
		return strings.Join(all[:most], ", ") + fmt.Sprintf(", and %d more", more)
	}
	return strings.Join(all, ", ")
}

// after is a part of the process that begins when the hub lacks nothing.
type after struct {
	manager.Runnable
	kinds *kinds
}

// Start waits for the kinds.
func (a *after) Start(ctx context.Context) error {
	if !a.kinds.await(ctx) {
		return nil // ctx is done
	}
	return a.Runnable.Start(ctx)
}

// NeedLeaderElection tells the manager that every replica works.
func (a *after) NeedLeaderElection() bool { return false }
