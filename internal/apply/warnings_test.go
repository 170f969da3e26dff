package apply

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"kumodo.io/convoy/internal/delivery"
)

type heardKey struct{}

type byContext struct{}

func (byContext) HandleWarningHeaderWithContext(ctx context.Context, _ int, _, text string) {
	if heard, ok := ctx.Value(heardKey{}).(func(string)); ok {
		heard(text)
	}
}

// listening makes applies hear the warnings of the server.
func (w *world) listening() func(*Request) {
	w.Helper()
	cfg := rest.CopyConfig(config)
	cfg.WarningHandler, cfg.WarningHandlerWithContext = nil, byContext{}
	var err error
	w.target.Dynamic, err = dynamic.NewForConfig(cfg)
	w.check(err)
	return func(req *Request) {
		req.Listen = func(ctx context.Context, heard func(string)) context.Context {
			return context.WithValue(ctx, heardKey{}, heard)
		}
	}
}

func TestWarningsOfTheServerAreToldOnceWithTheFirstObject(t *testing.T) {
	w := newWorld(t)
	listen := w.listening()
	crd := w.definition("v1")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, _ := versions[0].(map[string]any)
	version["deprecated"], version["deprecationWarning"] = true, "widgets are old; the password is "+sentinel
	w.check(unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
	set := w.applyWith(listen, crd, w.widget("v1", "b"), w.widget("v1", "a"), w.secret("pw"))
	want := []string{fmt.Sprintf("%s: widgets are old; the password is *** (and 1 objects more)", delivery.RefOf(w.widget("v1", "a")))}
	if diff := cmp.Diff(want, set.Warnings); diff != "" || len(set.Failed) > 0 {
		t.Errorf("failed %v; warnings %s", set.Failed, diff)
	}
}

func TestWarningsAreFewAndShort(t *testing.T) {
	var w warnings
	a := &applier{clean: &scrubber{}}
	for i := range 500 {
		ref := delivery.ObjectRef{Kind: "ConfigMap", Name: fmt.Sprintf("c%03d", i)}
		w.note(ref, a.clean.line(fmt.Sprintf("text %03d %s", i, strings.Repeat("long ", 1000))))
	}
	lines := w.lines()
	if len(lines) != maxWarnings || lines[maxWarnings-1] != fmt.Sprintf("and %d warnings more", maxHeard-maxWarnings+1) {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	for _, l := range lines {
		if len(l) > 400 {
			t.Errorf("%d bytes", len(l))
		}
	}
}

func TestWhatIsSaidAboutASecretIsNotHeard(t *testing.T) {
	heard := 0
	a := &applier{req: Request{Listen: func(ctx context.Context, _ func(string)) context.Context { heard++; return ctx }}}
	a.listen(t.Context(), &item{ref: delivery.ObjectRef{Kind: "Secret", Name: "s"}})
	a.listen(t.Context(), &item{ref: delivery.ObjectRef{Kind: "ConfigMap", Name: "s"}})
	if heard != 1 {
		t.Errorf("listened %d times", heard)
	}
}
