package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// celValues are what expressions see in these tests.
func celValues() map[string]any {
	return map[string]any{
		"cluster": map[string]any{
			"name": "eu-1", "region": "eu-west-1", "tier": "gold", "in": "x", "replicas": "3",
			"topology.kubernetes.io/zone": "a", "ünïcode": "ß", "empty": "",
		},
		"release": map[string]any{
			"name": "shop", "namespace": "team",
			"labels": map[string]any{"tier": "gold", "in": "x", "a.b/c": "d"}, "annotations": map[string]any{},
		},
		"object": map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"name": "web", "labels": map[string]any{"app": "web"}},
			"spec":     map[string]any{"replicas": int64(2), "large": int64(9007199254740993), "ratio": 0.5, "list": []any{"a", "b"}},
		},
	}
}

func TestConditions(t *testing.T) {
	for text, want := range map[string]bool{
		"true":                               true,
		"cluster.tier == 'gold'":             true,
		"cluster['tier'] != 'gold'":          false,
		"'tier' in cluster":                  true,
		"'nope' in cluster":                  false,
		"has(cluster.tier)":                  true,
		"has(cluster.topology)":              false,
		"has(release.labels.nope)":           false,
		"has(release.annotations.nope)":      false,
		"cluster['in'] == 'x'":               true,
		"release.labels['in'] == 'x'":        true,
		"release.labels['a.b/c'] == 'd'":     true,
		"'a.b/c' in release.labels":          true,
		"cluster[?'nope'].orValue('d')=='d'": true,
		"cluster.?tier.orValue('') == 'gold' && cluster.?nope.hasValue() == false":                  true,
		"'topology.kubernetes.io/zone' in cluster && cluster['topology.kubernetes.io/zone'] == 'a'": true,
		"cluster['ünïcode'] == 'ß'":                                            true,
		"cluster.region.startsWith('eu-')":                                     true,
		"cluster.region.matches('^eu-[a-z]+-[0-9]$')":                          true,
		"int(cluster.replicas) > 2":                                            true,
		"quantity('1Gi').isGreaterThan(quantity('500Mi'))":                     true,
		"cluster.all(k, k != '') && cluster.exists(k, k == 'in')":              true,
		"size(cluster.filter(k, k.startsWith('t'))) == 2":                      true,
		"lists.range(3) == [0, 1, 2] && sets.contains([1, 2], [2])":            true,
		"[1, 1, 2].distinct() == [1, 2] && ['a', 'b'].join('-') == 'a-b'":      true,
		"'%s-%d'.format(['a', 1]) == 'a-1' && 'aXbX'.replace('X', '') == 'ab'": true,
		"optional.of(2).optMap(x, x * 2).value() == 4":                         true,
		"semver('1.2.3').isLessThan(semver('1.10.0'))":                         true,
	} {
		t.Run(text, func(t *testing.T) {
			got, err := new(Session).Condition(t.Context(), "mutation m: when", text, celValues())
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("it is %t", got)
			}
		})
	}
}

func TestMutationsGiveObjectsAndPatches(t *testing.T) {
	for text, want := range map[string]Change{
		"Object{}": {Object: map[string]any{}},
		"Object{spec: Object.spec{replicas: object.spec.replicas + 1, large: object.spec.large}}": {Object: map[string]any{
			"spec": map[string]any{"replicas": int64(3), "large": int64(9007199254740993)},
		}},
		"cluster.tier == 'gold' ? Object{spec: Object.spec{ratio: 1.5}} : Object{}": {Object: map[string]any{"spec": map[string]any{"ratio": 1.5}}},
		"Object{metadata: Object.metadata{labels: {'a/b': cluster.region}, ?x: optional.none(), ?y: cluster.?name}}": {Object: map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"a/b": "eu-west-1"}, "y": "eu-1"},
		}},
		"Object{spec: Object.spec{l: [Object.spec.l{n: 1, v: [[1], [2]]}], m: [1, 2].map(x, x * 2) + [5], b: null, c: true, d: b'x'}}": {Object: map[string]any{"spec": map[string]any{
			"l": []any{map[string]any{"n": int64(1), "v": []any{[]any{int64(1)}, []any{int64(2)}}}},
			"m": []any{int64(2), int64(4), int64(5)}, "b": nil, "c": true, "d": "eA==",
		}}},
		"Object{metadata: Object.metadata{labels: object.metadata.labels}}": {Object: map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}}},
		"[]": {}, // an empty list has no type
		"[JSONPatch{op: 'remove', path: '/spec/replicas'}]": {Patch: []byte(`[{"op":"remove","path":"/spec/replicas"}]`)},
		"[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: cluster.name}, JSONPatch{op: 'copy', from: '/a', path: '/b'}]": {
			Patch: []byte(`[{"op":"add","path":"/metadata/labels/a~1b","value":"eu-1"},{"from":"/a","op":"copy","path":"/b"}]`),
		},
		"[JSONPatch{op: 'add', path: '/spec/x', value: Object.spec.x{a: 1}}]": {Patch: []byte(`[{"op":"add","path":"/spec/x","value":{"a":1}}]`)},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := new(Session).Mutation(t.Context(), "mutation m", text, celValues())
			if text == "[]" {
				if err == nil {
					t.Error("a list without a type is taken")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("change (-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorsOfExpressionsNameTheSubjectAndTheKey(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"a missing key":              {"cluster.zone == 'a'", `m: the key "zone" does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')`},
		"a missing key by index":     {"cluster['a/b'] == 'a'", `m: the key "a/b" does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')`},
		"has of what is not there":   {"has(release.labels.nope.x)", `m: the key "nope" does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')`},
		"has of a field of a text":   {"has(cluster.tier.x)", `m: the expression is not valid: line 1, column 4: type 'string' does not support field selection`},
		"a key that is computed":     {"cluster[release.name + 'x'] == 'a'", `m: a key does not exist; ask for it with 'key' in map, or take map[?'key'].orValue('')`},
		"a syntax error":             {"\n  cluster.", `m: the expression is not valid: line 2, column 11: Syntax error: no viable alternative at input '.'`},
		"a keyword as a field":       {"cluster.in == 'x'", `m: the expression is not valid: line 1, column 9: Syntax error: no viable alternative at input '.in'`},
		"deep nesting":               {strings.Repeat("(", 400) + "true" + strings.Repeat(")", 400), `m: the expression is not valid: expression recursion limit exceeded: 100`},
		"an unknown variable":        {"object.kind == 'x'", `m: the expression is not valid: line 1, column 1: undeclared reference to 'object' (in container '')`},
		"a condition that is a text": {"cluster.name", `m: the expression is not valid: wrong type of result: true or false is needed, and this gives string`},
		"no time":                    {"now() == timestamp('2024-01-01T00:00:00Z')", `m: the expression is not valid: line 1, column 4: undeclared reference to 'now' (in container '')`},
		"a wrong type":               {"release.labels > 1", `m: it cannot be evaluated with these values`},
		"a text that is no number":   {"int(cluster.name) > 1", `m: it cannot be evaluated with these values`},
		"a division by zero":         {"1 / (size(cluster.empty)) == 1", `m: a division by zero`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := new(Session).Condition(t.Context(), "m", tc.text, celValues())
			wantFailure(t, err, tc.want)
		})
	}
	for name, tc := range map[string]struct{ text, want string }{
		"a misspelled type": {"Object{spec: Object.spce{a: 1}}", `m: Object.spec is needed where Object.spce stands`},
		"another type":      {"object.spec", `m: the expression is not valid: wrong type of result: Object{…} or a list of JSONPatch{…} is needed, and this gives dyn`},
		"a key of a map":    {"Object{spec: Object.spec{a: {1: 2}}}", `m: a key of a map in Object.spec.a is not a text`},
		"a foreign value":   {"Object{spec: Object.spec{a: quantity('1')}}", `m: a value in Object.spec.a is of the type kubernetes.Quantity, which an object cannot hold`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := new(Session).Mutation(t.Context(), "m", tc.text, celValues())
			wantFailure(t, err, tc.want)
		})
	}
}

func wantFailure(t *testing.T, err error, want string) {
	t.Helper()
	f, ok := failure.As(err)
	if !ok || !f.Terminal || f.Reason != v1alpha1.ReasonRenderFailed {
		t.Fatalf("error %v", err)
	}
	if diff := cmp.Diff(want, f.Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

// chain applies step n times, each time to what the last time gave, under the name x.
func chain(first, step string, n int) string {
	return "[" + first + "]" + strings.Repeat(".map(x, "+step+")", n)
}

// evil are expressions that are cheap to write and endless to evaluate.
func evil() map[string]string {
	digits := "[0,1,2,3,4,5,6,7,8,9]"
	nested := "true"
	for i := range 8 {
		nested = fmt.Sprintf("%s.all(v%d, %s)", digits, i, nested)
	}
	return map[string]string{
		"loops within loops":            nested,
		"a text that doubles":           chain("'aaaaaaaaaaaaaaaa'", "x + x", 40) + "[0] == ''",
		"a list that doubles":           chain("[1]", "x + x", 60) + ".map(x, x == x).size() == 1",
		"a tree that doubles":           chain("[1]", "[[x, x]]", 60) + ".map(x, x == x).size() == 1",
		"a map that doubles":            chain("{'a': 1}", "{'a': {'a': x, 'b': x}.a, 'c': 1}", 60) + ".map(x, {'a': x, 'b': x} == {'a': x}).size() == 1",
		"optMap that doubles itself":    "optional.of(1)" + strings.Repeat(".optMap(x, x + 1)", 30) + ".hasValue()",
		"a tree that a loop doubles":    "size([[dyn(1)]]" + strings.Repeat(".map(x, [dyn(x), dyn(x)])", 60) + ".map(x, x == x)) == 1",
		"lists.range":                   "lists.range(2000000000).size() > 0",
		"everything with everything":    "lists.range(10000).map(x, x + 1).distinct().size() > 0",
		"sets of everything":            "sets.contains(lists.range(10000), lists.range(10000))",
		"replace":                       chain("'a'", "x + x", 17) + ".map(x, x.replace('a', x)).size() == 1",
		"join":                          chain("'a'", "x + x", 17) + ".map(x, lists.range(9999).map(y, 'a').join(x)).size() == 1",
		"a precise format":              "'%.999999999f'.format([1.0]) == ''",
		"a regular expression":          chain("'a'", "x + x", 19) + ".map(x, x.matches('((a{0,100}){0,9}){0,1}(a{0,100}a{0,100}a{0,100}a{0,100}){9}b')).size() == 1",
		"a computed regular expression": chain("'a'", "x + x", 19) + ".map(x, x.matches('(' + '(x?){500}(x?){500}'.replace('x', 'a') + ')b')).size() == 1",
		"100 KiB of text":               "true" + strings.Repeat(" || true", 100<<10/8),
		"deep nesting":                  strings.Repeat("(", 4000) + "true" + strings.Repeat(")", 4000),
		"deep lists":                    "size(" + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + ") == 1",
		"sorting what is sorted":        "[1, 2]" + strings.Repeat(".sortBy(x, -x)", 200) + " == 1",
		"a long chain":                  "true" + strings.Repeat(" && true", 900) + " && cluster.name.nope",
	}
}

func TestEvilExpressionsAreRefusedSoon(t *testing.T) {
	for name, text := range evil() {
		t.Run(name, func(t *testing.T) {
			done := make(chan error, 1)
			go func() {
				_, err := new(Session).Condition(context.Background(), "m", text, celValues())
				done <- err
			}()
			select {
			case err := <-done:
				if f, ok := failure.As(err); !ok || !f.Terminal || f.Reason != v1alpha1.ReasonRenderFailed || len(f.Message) > 400 {
					t.Errorf("error %v", err)
				}
			case <-time.After(4 * time.Minute): // far more than it needs, also under the race detector on a loaded machine
				t.Fatal("it does not end")
			}
		})
	}
}

func TestAnEvilResultIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"fields that double": "Object{spec: Object.spec{a: " + chain("[dyn(1)]", "[dyn(x), dyn(x)]", 60) + "}}",
		"operations":         "lists.range(10000).map(a, lists.range(1000).map(b, JSONPatch{op: 'add', path: '/x', value: b}))[0]",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := new(Session).Mutation(t.Context(), "m", text, celValues()); err == nil {
				t.Error("it is accepted")
			}
		})
	}
}

func TestTheExpressionsOfAReleaseHaveOneBudget(t *testing.T) {
	s := &Session{spent: releaseCost - 300_000}
	text := "lists.range(100).all(a, lists.range(100).all(b, a + b >= 0))"
	for range 1000 {
		if _, err := s.Condition(t.Context(), "m", text, celValues()); err != nil {
			wantFailure(t, err, "m: the expressions of this Release cost too much together")
			return
		}
	}
	t.Error("there is no end to it")
}

func TestExpressionsEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := new(Session).Condition(ctx, "m", "lists.range(1000).all(a, lists.range(1000).all(b, a + b >= 0))", celValues())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestErrorsOfExpressionsHoldNoValue(t *testing.T) {
	in := celValues()
	in["object"] = map[string]any{"kind": "Secret", "data": map[string]any{"pw": "S3NT1NEL", "n": int64(8675309)}, "list": []any{"S3NT1NEL"}}
	for _, text := range []string{
		"Object{data: Object.data{a: cluster[object.data.pw]}}", "Object{data: Object.data{a: int(object.data.pw)}}",
		"Object{data: Object.data{a: timestamp(object.data.pw)}}", "Object{data: Object.data{a: object.data.pw + 1}}",
		"Object{data: Object.data{a: object.list[object.data.n]}}", "Object{data: Object.data{a: object.data[object.data.pw]}}",
		"Object{data: Object.data{a: quantity(object.data.pw)}}", "Object{data: Object.data{a: ''.matches('(' + object.data.pw)}}",
		"Object{data: Object.data{a: {object.data.n: 1}}}", "Object{data: Object.data{a: url(object.data.pw)}}",
		"Object{data: Object.data{a: ('%' + object.data.pw).format([1])}}", "Object{data: Object.data{a: object.data.pw.substring(99)}}",
		"Object{data: Object.data{a: duration(object.data.pw)}}",
	} {
		_, err := new(Session).Mutation(t.Context(), "m", text, in)
		if err == nil {
			t.Errorf("%s: no error", text)
			continue
		}
		if strings.Contains(err.Error(), "S3NT1NEL") || strings.Contains(err.Error(), "8675309") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func FuzzCEL(f *testing.F) {
	for _, seed := range []string{
		"Object{spec: Object.spec{replicas: object.spec.replicas + 1}}", "[JSONPatch{op: 'add', path: '/a', value: {'b': [1]}}]",
		"cluster.?tier.orValue('') == 'gold'", "[1, 2].map(x, [x, x]).map(y, y + y)", "optional.of([1]).optMap(x, x + x).value() == [1, 1]",
		"'%s'.format([cluster.name]).replace('a', 'b')", "release.labels.all(k, k in release.labels)", "Object{?a: object.?b}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ok, err := new(Session).Condition(t.Context(), "m", text, celValues())
		again, errAgain := new(Session).Condition(t.Context(), "m", text, celValues())
		if err == nil && errAgain == nil && ok != again {
			t.Error("two results of one condition")
		}
		one, err := new(Session).Mutation(t.Context(), "m", text, celValues())
		two, errAgain := new(Session).Mutation(t.Context(), "m", text, celValues())
		if diff := cmp.Diff(one, two); err == nil && errAgain == nil && diff != "" {
			t.Errorf("two results of one mutation:\n%s", diff)
		}
	})
}
