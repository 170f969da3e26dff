package apply

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Bounds of one Inventory object: the schema's, and what fits into the store of a hub with names of any length.
const (
	maxShardEntries = 2000
	maxShardBytes   = 900_000
)

// Record is what convoy knows of one Release on one Cluster: the entries, and the Inventory objects that keep
// them. It is a copy: after an error of a Ledger method, or when another worker may have written, Load again.
// A Record is used by one call at a time.
type Record struct {
	namespace string
	release   v1alpha1.InventoryOwner
	cluster   v1alpha1.InventoryOwner
	clusterID string // the identity of the target, when it was known
	entries   map[delivery.ObjectRef]kept
	shards    map[int32]*shard
}

// kept is an entry and where it is stored.
type kept struct {
	v1alpha1.InventoryEntry
	shard int32
}

// shard is one Inventory object. Its Objects are nil: Record.entries has them.
type shard struct {
	stored  *v1alpha1.Inventory // nil until it is in the hub
	entries int
	bytes   int
	dirty   bool
}

// NewRecord is the Record of a Release that has nothing on the Cluster yet. Nothing is written.
func NewRecord(rel *v1alpha1.Release, cluster *v1alpha1.Cluster) *Record {
	rec := newRecord(rel.Namespace,
		v1alpha1.InventoryOwner{Name: rel.Name, UID: string(rel.UID)},
		v1alpha1.InventoryOwner{Name: cluster.Name, UID: string(cluster.UID)})
	rec.clusterID = cluster.Status.ClusterID
	return rec
}

func newRecord(namespace string, release, cluster v1alpha1.InventoryOwner) *Record {
	return &Record{
		namespace: namespace, release: release, cluster: cluster,
		entries: map[delivery.ObjectRef]kept{}, shards: map[int32]*shard{},
	}
}

// ClusterName is the name of the Cluster, in the namespace of the Release.
func (r *Record) ClusterName() string { return r.cluster.Name }

// ClusterUID is the UID of the Cluster.
func (r *Record) ClusterUID() string { return r.cluster.UID }

// ClusterID is the identity of the target; empty when it was not known.
func (r *Record) ClusterID() string { return r.clusterID }

// Leftover is how a status tells of this Record after the Release has moved away.
func (r *Record) Leftover() v1alpha1.Leftover {
	return v1alpha1.Leftover{
		Cluster: r.cluster.Name, Identity: delivery.Identity(r.cluster.UID, r.clusterID),
		Objects: int32(min(len(r.entries), 1<<30)),
	}
}

// Key is short, and different for each life of the Release, Cluster object and cluster.
func (r *Record) Key() string {
	sum := sha256.Sum256([]byte(r.release.UID + "/" + r.cluster.UID + "/" + r.clusterID))
	return hex.EncodeToString(sum[:6])
}

// Len is the number of entries.
func (r *Record) Len() int { return len(r.entries) }

// Delivered reports whether an object of a render was applied, or may have been: not only those of hooks, and the namespace that was made
// for them.
func (r *Record) Delivered(namespaceMade string) bool {
	for ref, e := range r.entries {
		if e.Hook == "" && (namespaceMade == "" || ref != namespaceRef(namespaceMade)) {
			return true
		}
	}
	return false
}

// Stored reports whether the hub holds anything of this Record.
func (r *Record) Stored() bool {
	for _, s := range r.shards {
		if s.stored != nil {
			return true
		}
	}
	return false
}

// Entries are the entries in the order of their identity.
func (r *Record) Entries() []v1alpha1.InventoryEntry {
	out := make([]v1alpha1.InventoryEntry, 0, len(r.entries))
	for _, e := range r.entries {
		out = append(out, e.InventoryEntry)
	}
	sortEntries(out)
	return out
}

// uid is that of the object that was applied; "" when none was.
func (r *Record) uid(ref delivery.ObjectRef) string { return r.entries[ref].UID }

func (r *Record) has(ref delivery.ObjectRef) bool { _, known := r.entries[ref]; return known }

// uidsOf are those of all objects of Records, as far as they are known.
func uidsOf(records []*Record) map[string]bool {
	out := map[string]bool{}
	for _, rec := range records {
		for _, e := range rec.entries {
			if e.UID != "" {
				out[e.UID] = true
			}
		}
	}
	return out
}

// RefOf is the identity of an entry.
func RefOf(e v1alpha1.InventoryEntry) delivery.ObjectRef {
	return delivery.ObjectRef{Group: e.Group, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
}

func kindOf(e v1alpha1.InventoryEntry) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: e.Group, Version: e.Version, Kind: e.Kind}
}

func sortEntries(entries []v1alpha1.InventoryEntry) {
	slices.SortFunc(entries, func(a, b v1alpha1.InventoryEntry) int { return RefOf(a).Compare(RefOf(b)) })
}

// load takes the entries of a stored Inventory.
func (r *Record) load(inv *v1alpha1.Inventory) {
	s := &shard{}
	r.shards[inv.Shard] = s
	for _, e := range inv.Objects {
		if _, twice := r.entries[RefOf(e)]; twice {
			s.dirty = true // two shards name it: one is enough
			continue
		}
		r.place(e, inv.Shard)
	}
	s.stored = inv
	inv.Objects = nil
}

// place adds an entry that is not there yet to a shard.
func (r *Record) place(e v1alpha1.InventoryEntry, number int32) {
	s := r.shards[number]
	s.entries++
	s.bytes += sizeOf(e)
	r.entries[RefOf(e)] = kept{InventoryEntry: e, shard: number}
}

// add announces an entry. One that is there stays as it is, with its UID.
func (r *Record) add(e v1alpha1.InventoryEntry) {
	if _, known := r.entries[RefOf(e)]; known {
		return
	}
	number := r.roomFor(e)
	r.place(e, number)
	r.shards[number].dirty = true
}

// confirm takes over version and UID of an object that was applied.
func (r *Record) confirm(e v1alpha1.InventoryEntry) {
	old, known := r.entries[RefOf(e)]
	if !known {
		r.add(e)
		return
	}
	if old.Version == e.Version && old.UID == e.UID && old.Hook == e.Hook {
		return
	}
	s := r.shards[old.shard]
	s.bytes += sizeOf(e) - sizeOf(old.InventoryEntry)
	s.dirty = true
	r.entries[RefOf(e)] = kept{InventoryEntry: e, shard: old.shard}
}

func (r *Record) drop(ref delivery.ObjectRef) {
	old, known := r.entries[ref]
	if !known {
		return
	}
	delete(r.entries, ref)
	s := r.shards[old.shard]
	s.entries--
	s.bytes -= sizeOf(old.InventoryEntry)
	s.dirty = true
}

// roomFor is the first shard that the entry fits in.
func (r *Record) roomFor(e v1alpha1.InventoryEntry) int32 {
	for number := int32(0); ; number++ {
		s, there := r.shards[number]
		if !there {
			r.shards[number] = &shard{}
			return number
		}
		if s.entries < maxShardEntries && s.bytes+sizeOf(e) <= maxShardBytes {
			return number
		}
	}
}

// numbers are the shards in order.
func (r *Record) numbers() []int32 {
	out := make([]int32, 0, len(r.shards))
	for n := range r.shards {
		out = append(out, n)
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}

func (r *Record) entriesOf(number int32) []v1alpha1.InventoryEntry {
	out := make([]v1alpha1.InventoryEntry, 0, r.shards[number].entries)
	for _, e := range r.entries {
		if e.shard == number {
			out = append(out, e.InventoryEntry)
		}
	}
	sortEntries(out)
	return out
}

// sizeOf is what an entry takes in the store, its UID included before it is known.
func sizeOf(e v1alpha1.InventoryEntry) int {
	const keysAndUID = 110
	return keysAndUID + len(e.Group) + len(e.Version) + len(e.Kind) + len(e.Namespace) + len(e.Name) + len(e.Hook)
}
