package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// hubView is a Cluster and the Releases that have it, kept up to date.
type hubView struct {
	key      delivery.Key
	changed  chan struct{}
	clusters cache.Store
	releases cache.Store
	stop     context.CancelFunc
	done     []<-chan struct{}
}

// viewHub watches a Cluster and its Releases, and no others.
func (a *Activities) viewHub(ctx context.Context, key delivery.Key) (*hubView, error) {
	v := &hubView{key: key, changed: make(chan struct{}, 1)}
	ctx, v.stop = context.WithCancel(ctx)
	synced := make([]cache.InformerSynced, 2)
	v.clusters, synced[0] = v.follow(ctx, a.Hub, &v1alpha1.Cluster{}, &v1alpha1.ClusterList{}, "metadata.name")
	v.releases, synced[1] = v.follow(ctx, a.Hub, &v1alpha1.Release{}, &v1alpha1.ReleaseList{}, "spec.clusterRef.name")
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		v.close()
		return nil, fmt.Errorf("read what is observed on the hub: %w", ctx.Err())
	}
	return v, nil
}

// follow keeps the objects of one kind that a field selects.
func (v *hubView) follow(ctx context.Context, hub client.WithWatch, kind client.Object, list client.ObjectList, field string) (cache.Store, cache.InformerSynced) {
	which := func(o metav1.ListOptions) *client.ListOptions {
		o.FieldSelector = ""
		return &client.ListOptions{Namespace: v.key.Namespace, FieldSelector: fields.OneTermEqualSelector(field, v.key.Name), Raw: &o}
	}
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				into, _ := list.DeepCopyObject().(client.ObjectList)
				return into, hub.List(ctx, into, which(o))
			},
			WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				into, _ := list.DeepCopyObject().(client.ObjectList)
				return hub.Watch(ctx, into, which(o))
			},
		},
		ObjectType: kind,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { v.tell() }, UpdateFunc: func(any, any) { v.tell() }, DeleteFunc: func(any) { v.tell() },
		},
	})
	done := make(chan struct{})
	v.done = append(v.done, done)
	go func() {
		defer close(done)
		controller.RunWithContext(ctx)
	}()
	return store, controller.HasSynced
}

func (v *hubView) tell() {
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// read gives the Cluster, nil when it is gone or another life, and the Releases in the order of their names. They are not to be changed.
func (v *hubView) read() (*v1alpha1.Cluster, []*v1alpha1.Release) {
	var c *v1alpha1.Cluster
	for _, o := range v.clusters.List() {
		if found, ok := o.(*v1alpha1.Cluster); ok && string(found.UID) == v.key.UID {
			c = found
		}
	}
	var all []*v1alpha1.Release
	for _, o := range v.releases.List() {
		if r, ok := o.(*v1alpha1.Release); ok {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *v1alpha1.Release) int { return strings.Compare(a.Name, b.Name) })
	return c, all
}

func (v *hubView) close() {
	v.stop()
	for _, done := range v.done {
		<-done
	}
}
