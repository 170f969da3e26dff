package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func entry(name string) v1alpha1.InventoryEntry {
	return v1alpha1.InventoryEntry{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: name}
}

func TestNothingIsWrittenToTheTargetBeforeItIsAnnounced(t *testing.T) {
	w := newWorld(t)
	w.hubLog.intercept(breaking("POST", "/inventories"))
	_, err := Apply(w.ctx, w.target, w.ledger, w.request(w.configMap("cfg", nil)))
	if !errors.Is(err, ErrHub) || !errors.Is(err, errCut) {
		t.Errorf("got %v", err)
	}
	if lines := w.targetLog.take(); writes(lines) != 0 {
		t.Errorf("requests to the target: %v", lines)
	}
}

func TestAnObjectThatWasWishedForOnlyWhileTheWorkerDiedGoesInTheEnd(t *testing.T) {
	for _, when := range []string{"before its patch arrived", "after its patch arrived"} {
		t.Run(when, func(t *testing.T) {
			w := newWorld(t)
			a, b := w.configMap("a", nil), w.configMap("b", nil)
			if when == "before its patch arrived" {
				w.targetLog.intercept(breaking("PATCH", "/configmaps/"))
			} else {
				w.hubLog.intercept(breaking("PUT", "/inventories"))
			}
			if _, err := Apply(w.ctx, w.target, w.ledger, w.request(a, b)); err == nil {
				t.Fatal("the worker did not die")
			}
			w.connect() // another worker
			if set := w.applied(b); set.ToPrune != 1 {
				t.Errorf("ToPrune is %d", set.ToPrune)
			}
			w.prune(b)
			if w.live(a) != nil || w.live(b) == nil {
				t.Error("a is there, or b is not")
			}
			if diff := cmp.Diff([]string{"ConfigMap/b"}, names(w.record().Entries())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnErrorOfTheTargetIsNotAnErrorOfTheHub(t *testing.T) {
	w := newWorld(t)
	w.targetLog.intercept(breaking("PATCH", "/"))
	_, err := Apply(w.ctx, w.target, w.ledger, w.request(w.configMap("cfg", nil)))
	if !errors.Is(err, errCut) || errors.Is(err, ErrHub) {
		t.Errorf("got %v", err)
	}
}

func TestOfTwoWorkersWithTheSameRecordOneHasToLoadAgain(t *testing.T) {
	w := newWorld(t)
	w.check(w.ledger.Announce(w.ctx, w.record(), []v1alpha1.InventoryEntry{entry("a")}))
	one, two := w.record(), w.record()
	w.check(w.ledger.Announce(w.ctx, one, []v1alpha1.InventoryEntry{entry("b")}))
	err := w.ledger.Announce(w.ctx, two, []v1alpha1.InventoryEntry{entry("c")})
	if !errors.Is(err, ErrHub) || !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	fresh, stale := NewRecord(w.release, w.cluster), w.record()
	if err := w.ledger.Announce(w.ctx, fresh, []v1alpha1.InventoryEntry{entry("d")}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a Record that was not loaded: %v", err)
	}
	if diff := cmp.Diff([]string{"ConfigMap/a", "ConfigMap/b"}, names(stale.Entries())); diff != "" {
		t.Error(diff)
	}
}

func TestAnInventoryOutlivesItsDeletionUntilItIsRemoved(t *testing.T) {
	w := newWorld(t)
	rec := w.record()
	w.check(w.ledger.Announce(w.ctx, rec, []v1alpha1.InventoryEntry{entry("a")}))
	inv := object("core.convoy.kumodo.io/v1alpha1", "Inventory", w.ns, inventoryName(rec, 0))
	w.remove(inv)
	if live := w.live(inv); live == nil || len(live.GetOwnerReferences()) != 0 {
		t.Fatalf("it is gone, or owned: %v", live)
	}
	rec = w.record()
	if err := w.ledger.Remove(w.ctx, rec); err == nil {
		t.Error("a Record with entries was removed")
	}
	w.check(w.ledger.Drop(w.ctx, rec, []delivery.ObjectRef{RefOf(entry("a"))}))
	w.check(w.ledger.Remove(w.ctx, rec))
	if w.live(inv) != nil {
		t.Error("it is still there")
	}
}

func TestAnAbandonedRecordIsGoneWithItsEntries(t *testing.T) {
	w := newWorld(t)
	rec := w.record()
	w.check(w.ledger.Announce(w.ctx, rec, []v1alpha1.InventoryEntry{entry("a")}))
	w.check(w.ledger.Abandon(w.ctx, rec))
	if w.record().Stored() {
		t.Error("it is still there")
	}
}

func TestOnlyHooksAndTheirNamespaceAreNoDelivery(t *testing.T) {
	hook := v1alpha1.InventoryEntry{Group: "batch", Version: "v1", Kind: "Job", Namespace: "shop", Name: "a", Hook: "1/a"}
	home := v1alpha1.InventoryEntry{Version: "v1", Kind: "Namespace", Name: "shop"}
	object := v1alpha1.InventoryEntry{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "a"}
	for _, tc := range []struct {
		entries []v1alpha1.InventoryEntry
		made    string
		want    bool
	}{
		{nil, "shop", false},
		{[]v1alpha1.InventoryEntry{hook, home}, "shop", false},
		{[]v1alpha1.InventoryEntry{hook, home}, "", true},
		{[]v1alpha1.InventoryEntry{hook, home, object}, "shop", true},
	} {
		rec := NewRecord(&v1alpha1.Release{}, &v1alpha1.Cluster{})
		for _, e := range tc.entries {
			rec.add(e)
		}
		if got := rec.Delivered(tc.made); got != tc.want {
			t.Errorf("%v, and the namespace %q was made: %v", tc.entries, tc.made, got)
		}
	}
}

func TestAnotherLifeOfAReleaseHasNoneOfTheRecordsOfTheOneBefore(t *testing.T) {
	w := newWorld(t)
	w.check(w.ledger.Announce(w.ctx, w.record(), []v1alpha1.InventoryEntry{entry("a")}))
	again := w.another("app")
	if again.record().Stored() {
		t.Error("it has")
	}
}

func TestShardsFillUpToTheirBoundsAndHolesAreUsedAgain(t *testing.T) {
	rec := newRecord("ns", v1alpha1.InventoryOwner{}, v1alpha1.InventoryOwner{})
	for i := range maxShardEntries + 1 {
		rec.add(entry(fmt.Sprint(i)))
	}
	if rec.shards[0].entries != maxShardEntries || rec.shards[1].entries != 1 {
		t.Errorf("shards %+v %+v", rec.shards[0], rec.shards[1])
	}
	rec.drop(RefOf(entry("7")))
	rec.add(entry("new"))
	if rec.entries[RefOf(entry("new"))].shard != 0 {
		t.Error("the hole was not used")
	}
	long := newRecord("ns", v1alpha1.InventoryOwner{}, v1alpha1.InventoryOwner{})
	for i := range maxShardEntries {
		long.add(entry(strings.Repeat("x", 900) + fmt.Sprint(i)))
	}
	for n, s := range long.shards {
		if s.bytes > maxShardBytes {
			t.Errorf("shard %d has %d bytes", n, s.bytes)
		}
	}
}

func TestTheNameOfAnInventoryIsValidForEveryNameOfARelease(t *testing.T) {
	for _, name := range []string{"a", strings.Repeat("a", 253), strings.Repeat("a", 199) + "." + strings.Repeat("b", 40)} {
		got := inventoryName(newRecord("ns", v1alpha1.InventoryOwner{Name: name, UID: "u"}, v1alpha1.InventoryOwner{UID: "c"}), 4)
		if len(got) > 253 || strings.Contains(got, ".-") {
			t.Errorf("%s", got)
		}
	}
}

func TestALostInventoryIsRebuiltFromTheMarksOnTheTarget(t *testing.T) {
	w := newWorld(t)
	objects := append(w.fourObjects(), w.definition("v1"), w.widget("v1", "w"))
	w.applied(objects...)
	copied := object("v1", "Endpoints", w.ns, "web") // takes the labels of its Service
	copied.SetLabels(map[string]string{v1alpha1.LabelOwner: w.owner.Key()})
	yes := true
	owned := w.configMap("owned", nil)
	owned.SetLabels(map[string]string{v1alpha1.LabelOwner: w.owner.Key()})
	owned.SetAnnotations(map[string]string{v1alpha1.AnnotationRelease: w.owner.String()})
	owned.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: "web", UID: "1", Controller: &yes}})
	w.another("second").applied(w.configMap("second", nil))
	w.create(owned)
	_, err := w.admin.Resource(schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}).Namespace(w.ns).Create(w.ctx, copied, metav1.CreateOptions{})
	w.check(err)
	before := w.record()
	got, err := Rebuild(w.ctx, w.target, w.owner)
	w.check(err)
	if diff := cmp.Diff(before.Entries(), got.Entries); diff != "" {
		t.Errorf("-recorded +rebuilt: %s", diff)
	}
	if len(got.Unseen) != 0 {
		t.Errorf("unseen %v", got.Unseen)
	}
	w.check(w.ledger.Abandon(w.ctx, before))
	rec := NewRecord(w.release, w.cluster)
	w.check(w.ledger.Announce(w.ctx, rec, got.Entries))
	if diff := cmp.Diff(got.Entries, w.record().Entries()); diff != "" {
		t.Error(diff)
	}
}
