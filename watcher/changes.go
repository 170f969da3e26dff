package watcher

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kumodo.io/convoy/api/v1alpha1"
)

// Names of the cache's indexes: which object a Cluster or Release reads.
const (
	indexSecret    = "spec.secretRef"
	indexConfigMap = "spec.source.configMap"
)

// changed reports whether a Release changed in a way that calls for a reconcile.
func changed(was, is *v1alpha1.Release) bool {
	return was.Generation != is.Generation ||
		!maps.Equal(was.Labels, is.Labels) ||
		!maps.Equal(wishes(was.Annotations), wishes(is.Annotations))
}

// wishes are the annotations that people set: all but those that convoy writes itself.
func wishes(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	maps.DeleteFunc(out, func(k, _ string) bool {
		return k == v1alpha1.AnnotationNewLife || strings.HasPrefix(k, "kubectl.kubernetes.io/")
	})
	return out
}

func (w *watcher) index(mgr ctrl.Manager) error {
	ctx := context.Background() //nolint:forbidigo // indexes are added before the manager has a context
	err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Cluster{}, indexSecret, func(o client.Object) []string {
		a := o.(*v1alpha1.Cluster).Spec.Agentless //nolint:forcetypeassert // the indexer calls it with Clusters only
		if a == nil || a.Auth.Kubeconfig == nil {
			return nil
		}
		return []string{a.Auth.Kubeconfig.SecretRef.Name}
	})
	if err != nil {
		return fmt.Errorf("index Clusters: %w", err)
	}
	err = mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Release{}, indexConfigMap, func(o client.Object) []string {
		s := o.(*v1alpha1.Release).Spec.Source.ConfigMap //nolint:forcetypeassert // the indexer calls it with Releases only
		if s == nil {
			return nil
		}
		return []string{s.Name}
	})
	if err != nil {
		return fmt.Errorf("index Releases: %w", err)
	}
	return nil
}

func (w *watcher) clustersOfSecret(ctx context.Context, secret client.Object) []types.NamespacedName {
	return w.readers(ctx, &v1alpha1.ClusterList{}, indexSecret, secret)
}

func (w *watcher) releasesOfConfigMap(ctx context.Context, cm client.Object) []types.NamespacedName {
	return w.readers(ctx, &v1alpha1.ReleaseList{}, indexConfigMap, cm)
}

// readers names the objects of a list that read o, from the cache.
func (w *watcher) readers(ctx context.Context, list client.ObjectList, index string, o client.Object) []types.NamespacedName {
	err := w.hub.List(ctx, list, client.InNamespace(o.GetNamespace()), client.MatchingFields{index: o.GetName()})
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot tell who reads an object", "index", index, "name", client.ObjectKeyFromObject(o))
		return nil
	}
	var names []types.NamespacedName
	switch l := list.(type) {
	case *v1alpha1.ClusterList:
		for i := range l.Items {
			names = append(names, client.ObjectKeyFromObject(&l.Items[i]))
		}
	case *v1alpha1.ReleaseList:
		for i := range l.Items {
			names = append(names, client.ObjectKeyFromObject(&l.Items[i]))
		}
	}
	return names
}
