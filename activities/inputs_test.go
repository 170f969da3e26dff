package activities

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

func readingRelease(sources ...v1alpha1.PatchSource) *v1alpha1.Release {
	r := rollingOut(1, "sha256:a")
	for i := range sources {
		r.Spec.Mutations = append(r.Spec.Mutations, v1alpha1.Mutation{Name: string(rune('a' + i)), From: &sources[i]})
	}
	return r
}

func TestPatchesAreReadOnceAndOnlyWhereMutationsAskForThem(t *testing.T) {
	c, _ := registered()
	c.Spec.Metadata = map[string]v1alpha1.MetadataValue{"region": "eu"}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "over-eu"},
		Data:       map[string]string{"a": "x: 1", "other": "1"}, BinaryData: map[string][]byte{"b": []byte("y: 1")},
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s", UID: "s-9"}, Data: map[string][]byte{"k": []byte("z: 1")}}
	requests := 0
	hub := hubWith(t, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			requests++
			return w.Get(ctx, key, o, opts...)
		},
	}, cm, secret)
	a := &Activities{Deps: Deps{Hub: hub}}
	r := readingRelease(
		v1alpha1.PatchSource{Kind: "ConfigMap", Name: "over-{{ .cluster.region }}", Path: "a"},
		v1alpha1.PatchSource{Kind: "ConfigMap", Name: "over-eu", Path: "b"},
		v1alpha1.PatchSource{Kind: "Secret", Name: "s", Path: "k"},
		v1alpha1.PatchSource{Kind: "ConfigMap", Name: "nope", Path: "k"},
		v1alpha1.PatchSource{Kind: "ConfigMap", Name: "Not A Name/..", Path: "k"},
	)
	digest := func() string {
		t.Helper()
		got, err := readInputs(t.Context(), a.Hub, r, c)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]byte{"a": []byte(cm.Data["a"]), "b": []byte("y: 1"), "c": []byte("z: 1")}
		if diff := cmp.Diff(want, got.patches); diff != "" {
			t.Errorf("patches (-want +got):\n%s", diff)
		}
		return delivery.InputsDigest(r, c, "r", got.reads...)
	}
	before := digest()
	if requests != 4 {
		t.Errorf("%d requests for 4 objects", requests)
	}
	change := func(key, text string) string {
		t.Helper()
		cm.Data[key] = text
		if err := hub.Update(t.Context(), cm); err != nil {
			t.Fatal(err)
		}
		return digest()
	}
	if change("other", "2") != before {
		t.Error("an entry that nobody reads moves the digest of the inputs")
	}
	if change("a", "x: 2") == before {
		t.Error("another patch does not move the digest of the inputs")
	}
	if change("a", "x: 1") != before {
		t.Error("the former patch has another digest than before")
	}

	requests = 0
	if got, err := readInputs(t.Context(), a.Hub, readingRelease(v1alpha1.PatchSource{Kind: "Source", Path: "a"}), c); err != nil || requests != 0 || got.reads != nil {
		t.Errorf("a Release that reads nothing on the hub made %d requests: %v, %v", requests, got, err)
	}
}

func TestSecretsOfConvoyAndOfClustersAreNotRead(t *testing.T) {
	c, token := registered()
	kept := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kept"}, Type: v1alpha1.SecretTypeCredentials, Data: map[string][]byte{"k": []byte("x: S3NT1NEL")}}
	a := &Activities{Deps: Deps{Hub: hubWith(t, interceptor.Funcs{}, c, token, kept)}}
	_, err := readInputs(t.Context(), a.Hub, readingRelease(v1alpha1.PatchSource{Kind: "Secret", Name: "kept", Path: "k"}), c)
	wantRefusal(t, err, "mutation a: Secret kept is convoy's own and is not read; use another Secret")

	r := readingRelease(v1alpha1.PatchSource{Kind: "Secret", Name: "to{{ \"ken\" }}", Path: "token"})
	read, err := readInputs(t.Context(), a.Hub, r, c)
	if err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, read.permit(t.Context(), a.Hub, r.Namespace), "mutation a: Secret token belongs to Cluster east and is not read; use another Secret")
}

func wantRefusal(t *testing.T, err error, want string) {
	t.Helper()
	f, ok := failure.As(err)
	if !ok || !f.Terminal || f.Reason != v1alpha1.ReasonRenderFailed || strings.Contains(f.Message, "S3NT1NEL") {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff(want, f.Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}
