package render

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

func releaseIn(namespace, name string) *v1alpha1.Release {
	return &v1alpha1.Release{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + name)}}
}

// renderOf renders ConfigMaps that hold about the given number of bytes that compress badly.
func renderOf(t *testing.T, seed uint64, size int) *Output {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	files := map[string][]byte{}
	for i := 0; size >= 0; i++ {
		n := min(size, 700<<10)
		size -= n + 1
		raw := make([]byte, n*3/4)
		for j := range raw {
			raw[j] = byte(random.UintN(256))
		}
		files[fmt.Sprintf("%d.yaml", i)] = fmt.Appendf(nil, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d-%d}\ndata:\n  x: %q\n", seed, i, base64.StdEncoding.EncodeToString(raw))
	}
	out, err := Render(t.Context(), Input{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func secretsIn(t *testing.T, hub client.Client, namespace string) []corev1.Secret {
	t.Helper()
	var list corev1.SecretList
	if err := hub.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func put(t *testing.T, s *Store, rel *v1alpha1.Release, out *Output) v1alpha1.RenderRef {
	t.Helper()
	ref, err := s.Put(t.Context(), rel, out)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func wantObjects(t *testing.T, s *Store, namespace string, ref v1alpha1.RenderRef, out *Output) {
	t.Helper()
	got, err := s.Get(t.Context(), namespace, ref)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out.Content, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func wantCost(t *testing.T, hub *countingHub, what string, reads, writes int) {
	t.Helper()
	if r, w := hub.took(); r != reads || w != writes {
		t.Errorf("%s cost %d reads and %d writes, want %d and %d", what, r, w, reads, writes)
	}
}

func TestASmallRenderCostsOneWrite(t *testing.T) {
	hub, ns := newHub(t)
	store, rel, out := NewStore(hub), releaseIn(ns, "shop"), renderOf(t, 1, 1000)
	ref := put(t, store, rel, out)
	wantCost(t, hub, "a new render", 1, 1)
	if ref.Digest != out.Digest {
		t.Errorf("digest %s", ref.Digest)
	}
	if again := put(t, store, rel, out); again != ref {
		t.Errorf("the same render is now %v", again)
	}
	wantCost(t, hub, "a render that is kept", 1, 0)
	wantObjects(t, store, ns, ref, out)
	wantCost(t, hub, "an apply in the same process", 0, 0)
	wantObjects(t, NewStore(hub), ns, ref, out)
	wantCost(t, hub, "an apply in another process", 1, 0)

	secrets := secretsIn(t, hub, ns)
	if len(secrets) != 1 {
		t.Fatalf("%d Secrets", len(secrets))
	}
	got := secrets[0]
	if got.Name != ref.Name || got.Type != "convoy.kumodo.io/render" || got.Immutable == nil || !*got.Immutable {
		t.Errorf("Secret %s of type %s", got.Name, got.Type)
	}
	wantLabels := map[string]string{v1alpha1.LabelReleaseUID: "uid-of-shop", v1alpha1.LabelDigest: out.Digest[7:39]}
	if diff := cmp.Diff(wantLabels, got.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	wantOwners := []metav1.OwnerReference{{APIVersion: "core.convoy.kumodo.io/v1alpha1", Kind: "Release", Name: "shop", UID: "uid-of-shop"}}
	if diff := cmp.Diff(wantOwners, got.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func TestObjectsOfAKeptRenderMayBeChanged(t *testing.T) {
	hub, ns := newHub(t)
	store, out := NewStore(hub), renderOf(t, 1, 100)
	ref := put(t, store, releaseIn(ns, "shop"), out)
	content, err := store.Get(t.Context(), ns, ref)
	if err != nil {
		t.Fatal(err)
	}
	content.Objects[0].SetName("changed")
	wantObjects(t, store, ns, ref, out)
}

func TestALargeRenderIsKeptInParts(t *testing.T) {
	hub, ns := newHub(t)
	store, rel, out := NewStore(hub), releaseIn(ns, "shop"), renderOf(t, 2, 6<<20)
	ref := put(t, store, rel, out)
	secrets := secretsIn(t, hub, ns)
	if len(secrets) < 4 {
		t.Errorf("%d parts", len(secrets))
	}
	for _, s := range secrets {
		size := 0
		for _, v := range s.Data {
			size += len(v)
		}
		if size >= 1<<20 {
			t.Errorf("part %s has %d bytes", s.Name, size)
		}
	}
	hub.took()
	put(t, store, rel, out)
	wantCost(t, hub, "a large render that is kept", 2, 0)
	wantObjects(t, NewStore(hub), ns, ref, out)
	wantCost(t, hub, "reading it", len(secrets), 0)
}

func TestAPartThatIsGoneIsNoticedAndMadeAgain(t *testing.T) {
	for _, suffix := range []string{"", "-1"} {
		hub, ns := newHub(t)
		rel, out := releaseIn(ns, "shop"), renderOf(t, 3, 2<<20)
		ref := put(t, NewStore(hub), rel, out)
		gone := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: ref.Name + suffix}}
		if err := hub.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
		_, err := NewStore(hub).Get(t.Context(), ns, ref)
		wantInvalid(t, err, "the kept render "+ref.Name+" is gone; the next reconcile makes it again")
		if again := put(t, NewStore(hub), rel, out); again != ref {
			t.Errorf("reference %v, then %v", ref, again)
		}
		wantObjects(t, NewStore(hub), ns, ref, out)
	}
}

func TestAPartThatIsNotWhatItWasIsRefusedAndReplaced(t *testing.T) {
	for name, damage := range map[string]func(*corev1.Secret){
		"other bytes":          func(s *corev1.Secret) { s.Data[partKey] = []byte("S3NT1NEL") },
		"another render":       func(s *corev1.Secret) { s.Data[partKey] = mustSplit(t, []byte("other"))[0] },
		"no number of parts":   func(s *corev1.Secret) { delete(s.Data, countKey) },
		"a number below zero":  func(s *corev1.Secret) { s.Data[countKey] = []byte("-1") },
		"a number of millions": func(s *corev1.Secret) { s.Data[countKey] = []byte("9999999") },
		"another type":         func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque },
	} {
		t.Run(name, func(t *testing.T) {
			hub, ns := newHub(t)
			rel, out := releaseIn(ns, "shop"), renderOf(t, 4, 100)
			ref := put(t, NewStore(hub), rel, out)
			secret := secretsIn(t, hub, ns)[0]
			if err := hub.Delete(t.Context(), &secret); err != nil {
				t.Fatal(err)
			}
			damage(&secret)
			secret.ResourceVersion, secret.UID = "", ""
			if err := hub.Create(t.Context(), &secret); err != nil {
				t.Fatal(err)
			}
			_, err := NewStore(hub).Get(t.Context(), ns, ref)
			wantInvalid(t, err, "the kept render "+ref.Name+" is not what its digest says; delete the Secret of this name, and the next reconcile makes it again")
			put(t, NewStore(hub), rel, out)
			wantObjects(t, NewStore(hub), ns, ref, out)
		})
	}
}

func mustSplit(t *testing.T, canonical []byte) [][]byte {
	t.Helper()
	parts, err := split(canonical)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func TestAReferenceOnlyWorksInItsNamespace(t *testing.T) {
	hub, ns := newHub(t)
	_, other := newHub(t)
	store := NewStore(hub)
	ref := put(t, store, releaseIn(ns, "shop"), renderOf(t, 5, 100))
	_, err := store.Get(t.Context(), other, ref)
	wantInvalid(t, err, "the kept render "+ref.Name+" is gone; the next reconcile makes it again")
}

func TestCollectDeletesWhatIsNotKept(t *testing.T) {
	hub, ns := newHub(t)
	store, shop, blog := NewStore(hub), releaseIn(ns, "shop"), releaseIn(ns, "blog")
	first, second, third := put(t, store, shop, renderOf(t, 6, 100)), put(t, store, shop, renderOf(t, 7, 2<<20)), put(t, store, shop, renderOf(t, 8, 100))
	foreign := put(t, store, blog, renderOf(t, 6, 100))
	if foreign.Name == first.Name {
		t.Fatal("two Releases share a Secret")
	}
	bystander := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "bystander", Labels: map[string]string{v1alpha1.LabelReleaseUID: string(shop.UID)}}}
	if err := hub.Create(t.Context(), bystander); err != nil {
		t.Fatal(err)
	}
	collect := func(keep ...v1alpha1.RenderRef) {
		t.Helper()
		if err := store.Collect(t.Context(), shop, keep); err != nil {
			t.Fatal(err)
		}
	}
	left := func(want ...string) {
		t.Helper()
		got := map[string]bool{}
		for _, s := range secretsIn(t, hub, ns) {
			got[s.Name] = true
		}
		expected := map[string]bool{"bystander": true, foreign.Name: true}
		for _, name := range want {
			expected[name] = true
		}
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	}
	hub.took()
	collect(first, second, third)
	wantCost(t, hub, "nothing to collect", 1, 0)
	collect(first, third)
	left(first.Name, third.Name)
	collect(third)
	left(third.Name)
	collect()
	left()
	collect()
}

func TestStoresThatPutTheSameAtTheSameTimeAgree(t *testing.T) {
	hub, ns := newHub(t)
	rel, out := releaseIn(ns, "shop"), renderOf(t, 9, 2<<20)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := NewStore(hub).Put(t.Context(), rel, out); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	wantObjects(t, NewStore(hub), ns, put(t, NewStore(hub), rel, out), out)
}

func TestARenderThatIsTooLargeIsRefused(t *testing.T) {
	_, err := NewStore(nil).Put(t.Context(), releaseIn("team", "shop"), &Output{Canonical: make([]byte, maxRenderSize+1)})
	wantInvalid(t, err, "the render is too large to be kept: at most 256 MiB; split the Release")
	parts := mustSplit(t, make([]byte, 1<<20))
	if _, err := inflate(bytes.NewReader(bytes.Join(parts, nil)), 1<<20-1); err == nil {
		t.Error("more was inflated than the limit")
	}
	if got, err := inflate(bytes.NewReader(bytes.Join(parts, nil)), 1<<20); err != nil || len(got) != 1<<20 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestRecentRendersStayWithinTheirBytes(t *testing.T) {
	r := newRecent(10)
	key := func(name string) recentKey { return recentKey{"team", v1alpha1.RenderRef{Name: name}} }
	r.put(key("a"), make([]byte, 6))
	r.put(key("b"), make([]byte, 4))
	r.get(key("a"))
	r.put(key("c"), make([]byte, 3))
	r.put(key("d"), make([]byte, 11))
	for name, want := range map[string]bool{"a": true, "b": false, "c": true, "d": false} {
		if _, ok := r.get(key(name)); ok != want {
			t.Errorf("%s is kept: %v", name, ok)
		}
	}
	if r.used != 9 {
		t.Errorf("%d bytes used", r.used)
	}
}
