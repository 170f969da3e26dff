package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// ErrHub marks errors of the hub, so that they are not taken for errors of the target.
var ErrHub = errors.New("the hub could not be used")

// hubTimeout bounds one request to the hub.
const hubTimeout = 30 * time.Second

// Ledger keeps Records as Inventory objects on the hub. Every write carries the resourceVersion it was read at, so
// of two workers that hold the same Record one gets an error and must Load again.
type Ledger struct {
	hub client.Client
}

// NewLedger makes a Ledger. The client must not read from a cache.
func NewLedger(hub client.Client) *Ledger { return &Ledger{hub: hub} }

// Load reads what a Release has, one Record for each Cluster that it has, or may have, something on, in the order of
// the Clusters' names. A Release that never was applied has none.
func (l *Ledger) Load(ctx context.Context, rel *v1alpha1.Release) ([]*Record, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	var list v1alpha1.InventoryList
	err := l.hub.List(ctx, &list, client.InNamespace(rel.Namespace),
		client.MatchingLabels{v1alpha1.LabelReleaseUID: string(rel.UID)})
	if err != nil {
		return nil, hubError("read the inventory", err)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Inventory) int { return int(a.Shard) - int(b.Shard) })
	byCluster := map[string]*Record{}
	var records []*Record
	for i := range list.Items {
		inv := &list.Items[i]
		if inv.Release.UID != string(rel.UID) {
			continue
		}
		cluster := inv.Cluster.UID + "/" + inv.ClusterID
		rec := byCluster[cluster]
		if rec == nil {
			rec = newRecord(rel.Namespace, inv.Release, inv.Cluster)
			rec.clusterID = inv.ClusterID
			byCluster[cluster] = rec
			records = append(records, rec)
		}
		rec.load(inv)
	}
	slices.SortFunc(records, func(a, b *Record) int {
		return strings.Compare(a.cluster.Name+"/"+a.cluster.UID+"/"+a.clusterID, b.cluster.Name+"/"+b.cluster.UID+"/"+b.clusterID)
	})
	return records, nil
}

// Announce writes, ahead of the target, the union of what the Record has and what will be applied. When nothing is
// new, nothing is written. It is also how entries of Rebuild get into an empty Record.
func (l *Ledger) Announce(ctx context.Context, rec *Record, entries []v1alpha1.InventoryEntry) error {
	for _, e := range entries {
		rec.add(e)
	}
	return l.save(ctx, rec)
}

// Confirm writes the UIDs and versions of objects that were applied, if any is new, and forgets those that were announced in vain.
func (l *Ledger) Confirm(ctx context.Context, rec *Record, applied []v1alpha1.InventoryEntry, refused []delivery.ObjectRef) error {
	for _, e := range applied {
		rec.confirm(e)
	}
	return l.Drop(ctx, rec, refused)
}

// Drop forgets objects that were seen gone, or that are not the Release's any more.
func (l *Ledger) Drop(ctx context.Context, rec *Record, refs []delivery.ObjectRef) error {
	for _, ref := range refs {
		rec.drop(ref)
	}
	return l.save(ctx, rec)
}

// Remove takes an empty Record off the hub. It refuses one that still has entries.
func (l *Ledger) Remove(ctx context.Context, rec *Record) error {
	if rec.Len() > 0 {
		return fmt.Errorf("the inventory of Release %s on Cluster %s still has %d entries", rec.release.Name, rec.cluster.Name, rec.Len())
	}
	return l.Abandon(ctx, rec)
}

// Abandon takes a Record off the hub with whatever it still lists: for a Release that gives up an unreachable
// Cluster by its deletion policy. What it listed must have been written down elsewhere before.
func (l *Ledger) Abandon(ctx context.Context, rec *Record) error {
	for _, number := range rec.numbers() {
		if err := l.remove(ctx, rec, number); err != nil {
			return err
		}
	}
	rec.entries = map[delivery.ObjectRef]kept{}
	return nil
}

// save writes the shards that changed.
func (l *Ledger) save(ctx context.Context, rec *Record) error {
	for _, number := range rec.numbers() {
		s := rec.shards[number]
		if !s.dirty {
			continue
		}
		if s.entries == 0 && number > 0 {
			if err := l.remove(ctx, rec, number); err != nil {
				return err
			}
			continue
		}
		if err := l.write(ctx, rec, number); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) write(ctx context.Context, rec *Record, number int32) error {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	s := rec.shards[number]
	inv := s.stored
	create := inv == nil
	if create {
		inv = newInventory(rec, number)
	}
	inv.Objects = rec.entriesOf(number)
	controllerutil.AddFinalizer(inv, v1alpha1.InventoryFinalizer)
	var err error
	if create {
		err = l.hub.Create(ctx, inv)
	} else {
		err = l.hub.Update(ctx, inv)
	}
	if err != nil {
		return hubError("write the inventory", err)
	}
	inv.Objects = nil
	s.stored, s.dirty = inv, false
	return nil
}

// remove takes one shard off the hub: the finalizer, then the object.
func (l *Ledger) remove(ctx context.Context, rec *Record, number int32) error {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	inv := rec.shards[number].stored
	if inv == nil {
		delete(rec.shards, number)
		return nil
	}
	inv.Objects = nil
	if controllerutil.RemoveFinalizer(inv, v1alpha1.InventoryFinalizer) {
		err := l.hub.Update(ctx, inv)
		if client.IgnoreNotFound(err) != nil {
			return hubError("empty the inventory", err)
		}
	}
	err := l.hub.Delete(ctx, inv, client.Preconditions{UID: &inv.UID})
	if client.IgnoreNotFound(err) != nil {
		return hubError("remove the inventory", err)
	}
	delete(rec.shards, number)
	return nil
}

func newInventory(rec *Record, number int32) *v1alpha1.Inventory {
	return &v1alpha1.Inventory{
		ObjectMeta: metav1.ObjectMeta{
			Name:      inventoryName(rec, number),
			Namespace: rec.namespace,
			Labels: map[string]string{
				v1alpha1.LabelReleaseUID: rec.release.UID,
				v1alpha1.LabelClusterUID: rec.cluster.UID,
			},
		},
		Release: rec.release, Cluster: rec.cluster, ClusterID: rec.clusterID, Shard: number,
	}
}

// inventoryName is the same for the same two lives, cluster and shard, so that a second writer collides instead of doubling.
func inventoryName(rec *Record, number int32) string {
	const longest = 200
	name := rec.release.Name
	if len(name) > longest {
		name = strings.TrimRight(name[:longest], "-.")
	}
	return fmt.Sprintf("%s-%s-%d", name, rec.Key(), number)
}

// hubError marks an error of the hub. A refusal because somebody else wrote first is told apart by apierrors.
func hubError(doing string, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		doing += " (another worker wrote it)"
	}
	return fmt.Errorf("%w: %s: %w", ErrHub, doing, err)
}
