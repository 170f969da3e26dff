package source

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
)

// hub answers every Get with what get decides.
type hub struct {
	client.Reader
	get func(ctx context.Context, key client.ObjectKey, cm *corev1.ConfigMap) error
}

func (h hub) Get(ctx context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	return h.get(ctx, key, o.(*corev1.ConfigMap))
}

var fromConfigMap = v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "app"}}

func TestEveryKeyOfAConfigMapIsAFile(t *testing.T) {
	data := map[string]string{"a.yaml": "a", "empty": ""}
	reads := 0
	sources := New(hub{get: func(_ context.Context, key client.ObjectKey, cm *corev1.ConfigMap) error {
		if want := (client.ObjectKey{Namespace: "team", Name: "app"}); key != want {
			t.Errorf("key %v", key)
		}
		reads++
		cm.Data = data
		cm.BinaryData = map[string][]byte{"bin": {0xff}}
		return nil
	}}, anywhere, Limits{})
	first, err := sources.Fetch(t.Context(), "team", fromConfigMap)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a.yaml": "a", "empty": "", "bin": "\xff"}, texts(first)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if first.Revision != first.Digest || len(first.Digest) != len("sha256:")+64 {
		t.Errorf("revision %q, digest %q", first.Revision, first.Digest)
	}
	again, err := sources.Fetch(t.Context(), "team", fromConfigMap)
	if err != nil || again.Revision != first.Revision {
		t.Errorf("the same content again: %v, %v", again, err)
	}

	data = map[string]string{"a.yaml": "b", "empty": ""}
	if b, err := sources.Open(t.Context(), "team", fromConfigMap, first.Revision); err != nil || b.Digest != first.Digest || reads != 2 {
		t.Errorf("from the cache: %v, %v, %d reads", b, err, reads)
	}
	changed, err := sources.Fetch(t.Context(), "team", fromConfigMap)
	if err != nil || changed.Revision == first.Revision {
		t.Errorf("another content: %v, %v", changed, err)
	}
	other := New(sources.hub, anywhere, Limits{})
	_, err = other.Open(t.Context(), "team", fromConfigMap, first.Revision)
	wantFailure(t, err, "", false, v1alpha1.ReasonSourceNotFound, "ConfigMap app moved on while it was being delivered")
	if b, err := other.Open(t.Context(), "team", fromConfigMap, changed.Revision); err != nil || b.Digest != changed.Digest {
		t.Errorf("the newest: %v, %v", b, err)
	}
}

func TestAConfigMapThatCannotBeReadIsTransient(t *testing.T) {
	for name, tc := range map[string]struct {
		err             error
		reason, message string
	}{
		"missing":   {apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "app"), v1alpha1.ReasonSourceNotFound, "ConfigMap app does not exist; create it or correct spec.source.configMap"},
		"forbidden": {apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "app", nil), v1alpha1.ReasonSourceFailed, "ConfigMap app could not be read from the hub"},
		"broken":    {errors.New("dial tcp 127.0.0.1:1: S3NT1NEL"), v1alpha1.ReasonSourceFailed, "ConfigMap app could not be read from the hub"},
	} {
		t.Run(name, func(t *testing.T) {
			sources := New(hub{get: func(context.Context, client.ObjectKey, *corev1.ConfigMap) error { return tc.err }}, anywhere, Limits{})
			_, err := sources.Fetch(t.Context(), "team", fromConfigMap)
			wantFailure(t, err, "", false, tc.reason, tc.message)
		})
	}
}

func TestAHubThatHangsEndsAtTheTimeout(t *testing.T) {
	sources := New(hub{get: func(ctx context.Context, _ client.ObjectKey, _ *corev1.ConfigMap) error {
		<-ctx.Done()
		return ctx.Err()
	}}, anywhere, Limits{FetchTimeout: 50 * time.Millisecond})
	_, err := sources.Fetch(t.Context(), "team", fromConfigMap)
	wantFailure(t, err, "", false, v1alpha1.ReasonSourceFailed, "ConfigMap app could not be read from the hub")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sources.Fetch(ctx, "team", fromConfigMap); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled caller got %v", err)
	}
}

func TestDigestsDifferWhereTreesDo(t *testing.T) {
	trees := []map[string][]byte{
		{}, {"": {}}, {"a": []byte("b")}, {"ab": {}}, {"a": {}, "b": {}}, {"b": []byte("a")}, {"a": {}}, {"a": []byte("b"), "c": {}},
	}
	seen := map[string]int{}
	for i, tree := range trees {
		d := digestOf(tree)
		if other, ok := seen[d]; ok {
			t.Errorf("trees %d and %d have one digest", i, other)
		}
		seen[d] = i
	}
}

func TestTheCacheStaysWithinItsBytes(t *testing.T) {
	c := newCache(100)
	c.put("a", 1, 60)
	c.put("b", 2, 30)
	cached[int](c, "a")
	c.put("c", 3, 30)
	c.put("too large", 4, 101)
	c.put("a", 5, 10)
	got := map[string]any{}
	for _, key := range []string{"a", "b", "c", "too large"} {
		if v, ok := cached[int](c, key); ok {
			got[key] = v
		}
	}
	if diff := cmp.Diff(map[string]any{"a": 5, "c": 3}, got); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
	if c.used != 40 {
		t.Errorf("%d bytes used", c.used)
	}
}
