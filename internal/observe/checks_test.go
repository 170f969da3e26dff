package observe

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/expr"
	"kumodo.io/convoy/internal/failure"
)

// databases judges the kind Database.
func databases(changes ...func(*v1alpha1.HealthCheck)) v1alpha1.HealthCheck {
	h := v1alpha1.HealthCheck{
		Group: "a.test", Kind: "Database", Current: "object.status.phase == 'Running'",
		InProgress: "object.status.?restarting.orValue(false) == true", Failed: "has(object.status.error)",
	}
	for _, change := range changes {
		change(&h)
	}
	return h
}

func compiled(tb testing.TB, all ...v1alpha1.HealthCheck) *Checks {
	tb.Helper()
	c, err := NewChecks(all)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestChecksJudgeTheObjectsThatTheySelect(t *testing.T) {
	says := func(text string) func(*v1alpha1.HealthCheck) {
		return func(h *v1alpha1.HealthCheck) { h.Message = text }
	}
	named := func(h *v1alpha1.HealthCheck) { h.Name, h.Namespace, h.Failed = "db", "shop", "true" }
	other := func(h *v1alpha1.HealthCheck) { h.Name = "other" }
	tests := map[string]struct {
		checks  []v1alpha1.HealthCheck
		object  string
		want    Verdict
		message string
	}{
		"current":                    {[]v1alpha1.HealthCheck{databases()}, `generation: 1}, status: {phase: Running}`, Current, "spec.healthChecks[0].current is true"},
		"inProgress before current":  {[]v1alpha1.HealthCheck{databases()}, `generation: 1}, status: {phase: Running, restarting: true}`, InProgress, "spec.healthChecks[0].inProgress is true"},
		"failed before inProgress":   {[]v1alpha1.HealthCheck{databases()}, `generation: 1}, status: {phase: Running, restarting: true, error: x}`, Failed, "spec.healthChecks[0].failed is true"},
		"none is true":               {[]v1alpha1.HealthCheck{databases()}, `generation: 1}, status: {phase: Starting}`, InProgress, "none of the expressions of spec.healthChecks[0] is true"},
		"no status yet":              {[]v1alpha1.HealthCheck{databases()}, `generation: 1}`, InProgress, `spec.healthChecks[0].failed: the key "status" does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')`},
		"a generation that is newer": {[]v1alpha1.HealthCheck{databases()}, `generation: 2}, status: {observedGeneration: 1, phase: Running, error: x}`, InProgress, "its controller has not seen its newest generation yet"},
		"being deleted":              {[]v1alpha1.HealthCheck{databases()}, `deletionTimestamp: "2024-01-01T00:00:00Z"}, status: {phase: Running}`, Terminating, "it is being deleted"},
		"its condition is nothing":   {[]v1alpha1.HealthCheck{databases()}, `generation: 1}, status: {phase: Running, conditions: [{type: Ready, status: "False"}]}`, Current, "spec.healthChecks[0].current is true"},
		"a message":                  {[]v1alpha1.HealthCheck{databases(says("'it is ' + object.status.phase"))}, `generation: 1}, status: {phase: Starting}`, InProgress, "it is Starting"},
		"a message of a failure":     {[]v1alpha1.HealthCheck{databases(says("object.status.error"))}, `generation: 1}, status: {phase: Starting, error: "out of\n disk"}`, Failed, "out of disk"},
		"an empty message":           {[]v1alpha1.HealthCheck{databases(says("''"))}, `generation: 1}, status: {phase: Starting}`, InProgress, "none of the expressions of spec.healthChecks[0] is true"},
		"a message of the spec":      {[]v1alpha1.HealthCheck{databases(says("object.spec.password"))}, `generation: 1}, spec: {password: S3CR3T}, status: {phase: Starting}`, InProgress, `none of the expressions of spec.healthChecks[0] is true; spec.healthChecks[0].message: the key "spec" does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')`},
		"the first that selects it":  {[]v1alpha1.HealthCheck{databases(other), databases(named), databases()}, `generation: 1, namespace: shop}, status: {phase: Running}`, Failed, "spec.healthChecks[1].failed is true"},
		"another namespace":          {[]v1alpha1.HealthCheck{databases(named)}, `generation: 1, namespace: blog}, status: {conditions: [{type: Ready, status: "False", message: as ever}]}`, InProgress, "as ever"},
		"any group":                  {[]v1alpha1.HealthCheck{databases(func(h *v1alpha1.HealthCheck) { h.Group = "" })}, `generation: 1}, status: {phase: Running}`, Current, "spec.healthChecks[0].current is true"},
		"no checks":                  {nil, `generation: 1}`, Current, "Resource is current"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := fromYAML(t, `{apiVersion: a.test/v1, kind: Database, metadata: {name: db, `+tc.object+`}`)
			got, message, final := compiled(t, tc.checks...).Health(t.Context(), o)
			if got != tc.want || message != tc.message || final {
				t.Errorf("got %s (%s), final %v; want %s (%s)", got, message, final, tc.want, tc.message)
			}
		})
	}
}

func TestACheckTakesThePlaceOfWhatIsKnownOfAKind(t *testing.T) {
	c := compiled(t, v1alpha1.HealthCheck{Group: "apps", Kind: "Deployment", Current: "object.status.?readyReplicas.orValue(0) > 0"})
	o := fromYAML(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: x, generation: 2}, spec: {paused: true}, status: {observedGeneration: 2}}`)
	if got, message, _ := c.Health(t.Context(), o); got != InProgress {
		t.Errorf("%s: %s", got, message)
	}
	o = fromYAML(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: x}, status: {conditions: [{type: Failed, status: "True"}]}}`)
	if got, _, final := c.Health(t.Context(), o); got != Failed || !final {
		t.Errorf("another kind is %s, final %v", got, final)
	}
}

func TestChecksThatAreNotValidAreNamed(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.HealthCheck){
		"spec.healthChecks[1].current: the expression is not valid: wrong type of result: true or false is needed, and this gives dyn":       func(h *v1alpha1.HealthCheck) { h.Current = "object.status" },
		"spec.healthChecks[1].inProgress: the expression is not valid: line 1, column 1: undeclared reference to 'status' (in container '')": func(h *v1alpha1.HealthCheck) { h.InProgress = "status.phase == 'x'" },
		"spec.healthChecks[1].failed: the expression is not valid: line 1, column 8: Syntax error: no viable alternative at input '.'":       func(h *v1alpha1.HealthCheck) { h.Failed = "object." },
		"spec.healthChecks[1].message: the expression is not valid: wrong type of result: a text is needed, and this gives int":              func(h *v1alpha1.HealthCheck) { h.Message = "1" },
		"spec.healthChecks[1]: objects of the kind ConfigMap have no health and are not read; remove it, or name the group of another kind":  func(h *v1alpha1.HealthCheck) { h.Group, h.Kind = "", "ConfigMap" },
	} {
		spec := &v1alpha1.ReleaseSpec{HealthChecks: []v1alpha1.HealthCheck{databases(), databases(change)}}
		f, ok := failure.As(Validate(spec))
		if !ok || !f.Terminal || f.Reason != v1alpha1.ReasonRenderFailed || f.Message != want {
			t.Errorf("got  %v\nwant %s", f, want)
		}
		c, _ := NewChecks(spec.HealthChecks[1:])
		o := fromYAML(t, `{apiVersion: a.test/v1, kind: Database, metadata: {name: db}, status: {phase: Running, error: x}}`)
		if got, message, _ := c.Health(t.Context(), o); c.Selects(delivery.RefOf(o)) && (got != InProgress || !strings.HasPrefix(message, "spec.healthChecks[0]")) {
			t.Errorf("%s: %s", got, message)
		}
	}
	spec := &v1alpha1.ReleaseSpec{IgnoreDifferences: []v1alpha1.IgnoredDifference{{When: "object.x", JSONPointers: []string{"/x"}}}}
	if err := Validate(spec); !errors.Is(err, expr.ErrExpression) || !strings.HasPrefix(err.Error(), "spec.ignoreDifferences[0].when: ") {
		t.Error(err)
	}
}

// large is an object of many parts.
func large(tb testing.TB, parts int) *unstructured.Unstructured {
	tb.Helper()
	o := fromYAML(tb, `{apiVersion: a.test/v1, kind: Database, metadata: {name: db}, status: {phase: Running}}`)
	all := make([]any, parts)
	for i := range all {
		all[i] = map[string]any{"name": "S3CR3T", "n": int64(i)}
	}
	o.Object["spec"] = map[string]any{"all": all}
	return o
}

func TestAHugeObjectIsJudgedAndAnExpressionThatTakesTooLongRests(t *testing.T) {
	o := large(t, 100_000)
	fine := compiled(t, databases())
	fine.patience = time.Minute
	if got, message, _ := fine.Health(t.Context(), o); got != Current {
		t.Errorf("%s: %s", got, message)
	}
	costly := compiled(t, databases(func(h *v1alpha1.HealthCheck) {
		h.Failed = "object.spec.all.exists(a, object.spec.all.exists(b, a.n + b.n < 0))"
	}))
	costly.patience = time.Minute // it is not about time, of which a busy machine has less
	if got, message, _ := costly.Health(t.Context(), o); got != InProgress || !strings.Contains(message, "costs too much") || costly.rested() > 0 {
		t.Errorf("%s: %s", got, message)
	}
	slow := compiled(t, databases(func(h *v1alpha1.HealthCheck) {
		h.Failed = "lists.range(1000).exists(i, object.spec == object.status)"
	}))
	o = large(t, 60_000)
	began := time.Now()
	if got, message, _ := slow.Health(t.Context(), o); got != InProgress || message != "spec.healthChecks[0].failed: the expression takes too long" {
		t.Errorf("%s: %s", got, message)
	}
	if took := time.Since(began); took > 10*judgeTime {
		t.Errorf("it took %s", took)
	}
	if rests := slow.rested(); rests <= 0 || rests > restTime {
		t.Errorf("it rests for %s", rests)
	}
	if got, message, _ := slow.Health(t.Context(), o); got != InProgress || !strings.Contains(message, "took too long") {
		t.Errorf("%s: %s", got, message)
	}
	slow.resting.Store(time.Now().UnixNano())
	o = large(t, 1)
	if got, message, _ := slow.Health(t.Context(), o); got != Current {
		t.Errorf("after that: %s: %s", got, message)
	}
}

func TestRulesSayWhoseDriftIsIgnored(t *testing.T) {
	rules, err := NewIgnores([]v1alpha1.IgnoredDifference{
		{Group: "apps", Kind: "Deployment", JSONPointers: []string{"/spec/replicas"}},
		{Name: "web", Namespace: "shop", Managers: []string{"vpa"}},
		{When: "object.metadata.?labels.scaled.orValue('') == 'yes'", JSONPointers: []string{"/spec/scaled"}},
		{When: "object.metadata.labels.nowhere == 'yes'", JSONPointers: []string{"/spec/never"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for object, want := range map[string]string{
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}}`:                          "/spec/replicas vpa",
		`{apiVersion: apps/v1, kind: Deployment, metadata: {name: api, namespace: shop, labels: {scaled: "yes"}}}`: "/spec/replicas /spec/scaled",
		`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}`:                                  "vpa",
		`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: blog, labels: {scaled: "no"}}}`:          "",
		`{apiVersion: v1, kind: Deployment, metadata: {name: web}}`:                                                "",
	} {
		o := fromYAML(t, object)
		got := rules.glance().of(t.Context(), delivery.RefOf(o), o)
		if text := strings.Join(append(got.Pointers, got.Managers...), " "); text != want {
			t.Errorf("%s: %q, want %q", object, text, want)
		}
	}
	var none *Ignores
	if got := none.glance().of(t.Context(), delivery.ObjectRef{}, nil); len(got.Pointers)+len(got.Managers) > 0 {
		t.Error(got)
	}
}

func FuzzChecksHaveAVerdictForEveryObject(f *testing.F) {
	f.Add("object.status.phase == 'x'", "object.status.message", `{"status":{"phase":"x","message":"a\nb"}}`)
	f.Add("object.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", "string(object.metadata.generation)", `{"status":{"conditions":[null,1,{}]}}`)
	f.Add("object.status.all(k, object.status[k] > 1)", "object.status.?x.orValue('')", `{"status":{"a":1.5,"b":"S3CR3T"}}`)
	f.Fuzz(func(t *testing.T, current, message, object string) {
		o := &unstructured.Unstructured{}
		if json.Unmarshal([]byte(object), &o.Object) != nil || o.Object == nil {
			return
		}
		o.SetAPIVersion("a.test/v1")
		o.SetKind("Database")
		before := runtime.DeepCopyJSON(o.Object)
		c, _ := NewChecks([]v1alpha1.HealthCheck{{Kind: "Database", Current: current, Message: message}})
		verdict, text, final := c.Health(t.Context(), o)
		if verdict == "" || final || len(text) > longestMessage || !utf8.ValidString(text) || strings.ContainsAny(text, "\r\n") {
			t.Errorf("%q %q %v", verdict, text, final)
		}
		left, _ := json.Marshal(o.Object)
		if was, _ := json.Marshal(before); string(left) != string(was) {
			t.Error("the object was changed")
		}
	})
}

func TestRulesThatHaveNoValueForSomeObjectsApplyToOthersAllTheSame(t *testing.T) {
	ignores, err := NewIgnores([]v1alpha1.IgnoredDifference{{
		When: "object.metadata.annotations['example.com/tuned'] == 'yes'", JSONPointers: []string{"/data"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	look := ignores.glance()
	object := func(annotations map[string]string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x"}}}
		o.SetAnnotations(annotations)
		return o
	}
	for range 50 {
		plain := object(nil)
		if got := look.of(t.Context(), delivery.RefOf(plain), plain); len(got.Pointers) > 0 {
			t.Fatalf("of an object without the annotation %v is ignored", got.Pointers)
		}
	}
	tuned := object(map[string]string{"example.com/tuned": "yes"})
	if got := look.of(t.Context(), delivery.RefOf(tuned), tuned); len(got.Pointers) != 1 {
		t.Errorf("of the object with it %v is ignored", got.Pointers)
	}
	for range 200 {
		look.of(t.Context(), delivery.RefOf(tuned), object(nil))
	}
	if got := look.of(t.Context(), delivery.RefOf(tuned), tuned); len(got.Pointers) != 1 || got.Pointers[0] != "" {
		t.Errorf("after too many expressions %v is ignored", got.Pointers)
	}
}
