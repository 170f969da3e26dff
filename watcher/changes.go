package watcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Names of the cache's indexes: which object a Cluster or Release reads.
const (
	indexConnection = "spec.agentless"
	indexReads      = "spec.source"
	indexPoll       = "spec.source.poll"
	indexCluster    = "spec.clusterRef.name"
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
	releases := map[string]func(*v1alpha1.Release) []string{
		indexReads:   reads,
		indexCluster: func(r *v1alpha1.Release) []string { return []string{r.Spec.ClusterRef.Name} },
		indexPoll: func(r *v1alpha1.Release) []string {
			if _, id := pollOf(r); id != "" {
				return []string{id}
			}
			return nil
		},
	}
	for name, of := range releases {
		err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Release{}, name, func(o client.Object) []string {
			return of(o.(*v1alpha1.Release)) //nolint:forcetypeassert // the indexer calls it with Releases only
		})
		if err != nil {
			return fmt.Errorf("index Releases: %w", err)
		}
	}
	err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.Cluster{}, indexConnection, func(o client.Object) []string {
		return connectsWith(o.(*v1alpha1.Cluster)) //nolint:forcetypeassert // the indexer calls it with Clusters only
	})
	if err != nil {
		return fmt.Errorf("index Clusters: %w", err)
	}
	return nil
}

// connectsWith names, as kind/name, the objects that a Cluster's connection is built from.
func connectsWith(c *v1alpha1.Cluster) []string {
	a := c.Spec.Agentless
	if a == nil {
		return nil
	}
	switch {
	case a.Auth.Type == v1alpha1.AuthTypeKubeconfig && a.Auth.Kubeconfig != nil:
		return []string{"Secret/" + a.Auth.Kubeconfig.SecretRef.Name}
	case a.Auth.Type == v1alpha1.AuthTypeToken && a.Auth.Token != nil:
		return append(authority(a), "Secret/"+a.Auth.Token.SecretRef.Name)
	case a.Auth.Type == v1alpha1.AuthTypeClientCertificate && a.Auth.ClientCertificate != nil:
		return append(authority(a), "Secret/"+a.Auth.ClientCertificate.SecretRef.Name)
	}
	return nil
}

func authority(a *v1alpha1.AgentlessConnection) []string {
	if a.CAPublicCertRef == nil {
		return nil
	}
	return []string{a.CAPublicCertRef.Kind + "/" + a.CAPublicCertRef.Name}
}

// reads names, as kind/name, the objects of its namespace that a Release reads.
func reads(r *v1alpha1.Release) []string {
	var names []string
	if s := r.Spec.Source.ConfigMap; s != nil {
		names = append(names, "ConfigMap/"+s.Name)
	}
	for _, ref := range secretsOf(r.Spec.Source) {
		names = append(names, "Secret/"+ref.Name)
	}
	if helm := r.Spec.Render.Helm; helm != nil {
		for _, from := range helm.ValuesFrom {
			names = append(names, from.Kind+"/"+from.Name)
		}
	}
	for i := range r.Spec.Mutations {
		from := r.Spec.Mutations[i].From
		switch {
		case from == nil || from.Kind == v1alpha1.PatchFromSource:
		case strings.Contains(from.Name, "{{"):
			names = append(names, string(from.Kind)+"/"+anyName)
		default:
			names = append(names, string(from.Kind)+"/"+from.Name)
		}
	}
	return names
}

// secretsOf are the Secrets with the credentials of a source.
func secretsOf(src v1alpha1.Source) (refs []*v1alpha1.SourceSecretRef) {
	switch {
	case src.Git != nil && src.Git.SecretRef != nil:
		return append(refs, src.Git.SecretRef)
	case src.OCI != nil && src.OCI.SecretRef != nil:
		return append(refs, src.OCI.SecretRef)
	case src.Helm != nil && src.Helm.SecretRef != nil:
		return append(refs, src.Helm.SecretRef)
	}
	return nil
}

// anyName stands in the index for a name that is only known when it is rendered. No object has it.
const anyName = "*"

// clustersOf gives what names the Clusters that are connected with an object of the kind.
func (w *watcher) clustersOf(kind string) func(context.Context, client.Object) []types.NamespacedName {
	return func(ctx context.Context, o client.Object) []types.NamespacedName {
		return w.readers(ctx, &v1alpha1.ClusterList{}, indexConnection, o.GetNamespace(), kind+"/"+o.GetName())
	}
}

// releasesOf gives what names the Releases that read an object of the kind.
func (w *watcher) releasesOf(kind string) func(context.Context, client.Object) []types.NamespacedName {
	return func(ctx context.Context, o client.Object) []types.NamespacedName {
		if isOwn(o) {
			return nil
		}
		named := w.readers(ctx, &v1alpha1.ReleaseList{}, indexReads, o.GetNamespace(), kind+"/"+o.GetName())
		var perhaps v1alpha1.ReleaseList
		w.list(ctx, &perhaps, indexReads, o.GetNamespace(), kind+"/"+anyName)
		for i := range perhaps.Items {
			name := client.ObjectKeyFromObject(&perhaps.Items[i])
			if delivery.Reads(&perhaps.Items[i], kind, o.GetName()) && !slices.Contains(named, name) {
				named = append(named, name)
			}
		}
		return named
	}
}

// isOwn reports whether convoy wrote an object for itself: no Release may read it.
func isOwn(o client.Object) bool {
	_, ofRelease := o.GetLabels()[v1alpha1.LabelReleaseUID]
	_, ofCluster := o.GetLabels()[v1alpha1.LabelClusterUID]
	return ofRelease || ofCluster
}

// readers names the objects of a list that the index has under a value, from the cache.
func (w *watcher) readers(ctx context.Context, list client.ObjectList, index, namespace, value string) []types.NamespacedName {
	w.list(ctx, list, index, namespace, value)
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

// list fills a list with what the index has under a value, from the cache. It stays empty when that fails.
func (w *watcher) list(ctx context.Context, list client.ObjectList, index, namespace, value string) {
	err := w.hub.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{index: value})
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot tell who reads an object", "index", index, "namespace", namespace, "name", value)
	}
}
