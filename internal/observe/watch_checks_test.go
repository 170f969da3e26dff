package observe

import (
	"maps"
	"testing"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
)

// widgets are checks of the kind Widget by what its spec says, which needs no controller.
func widgets(tb testing.TB, current string) *Checks {
	tb.Helper()
	return compiled(tb, v1alpha1.HealthCheck{Kind: "Widget", Current: current})
}

// judgeBy has the objects of the Release judged by checks, as its observer would.
func (d *watched) judgeBy(checks *Checks) {
	d.wish.Checks = checks
	d.watches.JudgeBy(map[string]*Checks{d.owner.Key(): checks})
}

func TestObjectsAreJudgedByTheChecksOfTheirOwnerAlsoWhenTheseChange(t *testing.T) {
	w := newWorld(t)
	group := "checked-" + w.ns + ".test"
	w.define(group)
	one := fromYAML(w, `{apiVersion: `+group+`/v1, kind: Widget, metadata: {name: one}, spec: {text: hello}}`)
	d := w.watch(one, configMap(w, "settings"))
	d.await("")
	pending := "pending Widget." + group + " $NS/one"

	lists := w.log.count("/apis/" + group + "/v1/widgets")
	maps := w.log.count("/api/v1/configmaps")
	d.judgeBy(widgets(t, "object.spec.text == 'ready'"))
	if r := d.watches.Judge(d.ctx, d.wish, time.Now()); !r.Outdated {
		t.Error("what was judged before the checks came is taken for their verdict")
	}
	d.await(pending)
	if r := d.watches.Judge(d.ctx, d.wish, time.Now()); r.Outdated || len(r.Pending) != 1 || r.Pending[0].Message != "none of the expressions of spec.healthChecks[0] is true" {
		t.Errorf("%+v", r)
	}
	if _, told := d.watches.TakeDirty()[d.owner.Key()]; !told {
		t.Error("nobody was told")
	}
	if n := w.log.count("/apis/" + group + "/v1/widgets"); n <= lists {
		t.Error("the kind was not listed anew")
	}
	if n := w.log.count("/api/v1/configmaps"); n != maps {
		t.Error("a kind without checks was listed anew")
	}

	w.change(one, change{kind: merges, patch: `{"spec":{"text":"ready"}}`}) // an event
	d.wish.Ignores, _ = NewIgnores([]v1alpha1.IgnoredDifference{{JSONPointers: []string{"/spec/text"}}})
	d.await("")
	d.judgeBy(widgets(t, "object.spec.text == 'other'"))
	d.await(pending)
	d.judgeBy(nil)
	d.await("")
	if r := d.watches.Judge(d.ctx, d.wish, time.Now()); r.Outdated {
		t.Error("it is still judged by checks that are gone")
	}
}

func TestChecksOfOthersJudgeNothingOfARelease(t *testing.T) {
	w := newWorld(t)
	group := "checked-" + w.ns + ".test"
	w.define(group)
	d := w.watch(fromYAML(w, `{apiVersion: `+group+`/v1, kind: Widget, metadata: {name: one}, spec: {text: hello}}`))
	d.await("")
	other := widgets(t, "false")
	d.watches.JudgeBy(map[string]*Checks{"somebody": other})
	d.await("") // and is not outdated
	if r := d.watches.Judge(d.ctx, d.wish, time.Now()); r.Outdated || len(r.Pending) > 0 {
		t.Errorf("%+v", r)
	}
	d.watches.mu.Lock()
	same := maps.Equal(d.watches.checks, map[string]*Checks{"somebody": other})
	d.watches.mu.Unlock()
	if !same {
		t.Error("the checks are not kept")
	}
}

func TestAKindIsListedAnewOnceForAllWhoAskAtOnce(t *testing.T) {
	w := newWorld(t)
	group := "checked-" + w.ns + ".test"
	w.define(group)
	d := w.watch(fromYAML(w, `{apiVersion: `+group+`/v1, kind: Widget, metadata: {name: one}, spec: {text: hello}}`))
	d.await("")
	path := "/apis/" + group + "/v1/widgets"
	before := w.log.count(path)
	for range 20 {
		d.judgeBy(widgets(t, "false"))
	}
	d.await("pending Widget." + group + " $NS/one")
	if n := w.log.count(path) - before; n > 4 { // a list and a watch, and once more if this machine is slow
		t.Errorf("%d requests", n)
	}
}
