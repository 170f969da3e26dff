package render

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// slowBuild takes minutes.
func slowBuild(b *Builds) Input {
	var all strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&all, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c-%d}\n", i)
	}
	in := buildOf(map[string]string{"kustomization.yaml": "resources: [a.yaml]\nnamePrefix: x-\n", "a.yaml": all.String()})
	in.Builds = b
	return in
}

// bombs are small sources of large builds. Each text grows as the numbers of Fibonacci do.
func bombs() map[string]map[string]string {
	const two = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {t: %[1]s}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {t: %[1]s}\n"
	text, grow := strings.Repeat("S3NT1NEL", 1<<10), "resources: [a.yaml]\nreplacements:\n"
	for i := range 60 {
		grow += fmt.Sprintf("- source: {kind: ConfigMap, name: %c, fieldPath: data.t}\n  targets: [{select: {kind: ConfigMap, name: %c}, fieldPaths: [data.t], options: {delimiter: '-', index: 99999999}}]\n", 'a'+i%2, 'b'-i%2)
	}
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c-%d}\ndata: {t: x}\n", i)
	}
	return map[string]map[string]string{
		"needs more than 128 MiB of memory; split the source, or set --kustomize-memory of convoy higher": {
			"kustomization.yaml": grow, "a.yaml": fmt.Sprintf(two, text),
		},
		"gives more than 64 MiB; split the source": {
			"kustomization.yaml": "resources: [a.yaml, many.yaml]\nreplacements:\n- source: {kind: ConfigMap, name: a, fieldPath: data.t}\n  targets: [{select: {kind: ConfigMap, name: c-.*}, fieldPaths: [data.t]}]\n",
			"a.yaml":             aConfigMap + "data: {t: " + strings.Repeat("S3NT1NEL", 1<<15) + "}\n",
			"many.yaml":          many.String(),
		},
	}
}

func TestABuildThatTakesTooMuchIsRefusedAlone(t *testing.T) {
	b := NewBuilds(BuildLimits{Memory: 128 << 20, CPU: time.Hour, AtOnce: 1})
	for message, files := range bombs() {
		in := buildOf(files)
		in.Builds = b
		_, err := Render(t.Context(), in)
		wantInvalid(t, err, "the kustomize build "+message)
	}
	_, err := Render(t.Context(), slowBuild(NewBuilds(BuildLimits{Memory: 1 << 30, CPU: time.Second, AtOnce: 1})))
	wantInvalid(t, err, "the kustomize build needs more than 1s of CPU time, which grows with the square of the number of objects; split the source, or set --kustomize-cpu-time of convoy higher")
	small := buildOf(map[string]string{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": aConfigMap})
	small.Builds = b
	if out, err := Render(t.Context(), small); err != nil || len(out.Objects) != 1 {
		t.Errorf("afterwards: %v, %v", out, err)
	}
}

// startSlow starts a slow build, and gives a function that ends it and waits for that.
func startSlow(t *testing.T, b *Builds) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := Render(ctx, slowBuild(b))
		result <- err
	}()
	for ticker := time.NewTicker(time.Millisecond); len(b.places) == 0; <-ticker.C {
		if t.Context().Err() != nil {
			t.Fatal("the build does not start")
		}
	}
	return func() error {
		cancel()
		return <-result
	}
}

func TestASlowBuildEndsWithItsContextAndHoldsUpNoOther(t *testing.T) {
	b := NewBuilds(BuildLimits{Memory: 1 << 30, CPU: time.Hour, AtOnce: 2})
	end := startSlow(t, b)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			in := buildOf(map[string]string{"kustomization.yaml": fmt.Sprintf("resources: [a.yaml]\nnamePrefix: x%d-\n", i), "a.yaml": aConfigMap})
			in.Builds = b
			out, err := Render(t.Context(), in)
			if err != nil || len(out.Objects) != 1 || out.Objects[0].GetName() != fmt.Sprintf("x%d-a", i) {
				t.Errorf("%v, %v", out, err)
			}
		})
	}
	wg.Wait()
	if err := end(); !errors.Is(err, context.Canceled) { // and not that it was done before
		t.Errorf("the slow build: %v", err)
	}
	if len(b.places) != 0 {
		t.Error("its place is still taken")
	}
}

func TestBuildsThatWaitKeepNoOtherRenderOut(t *testing.T) {
	b := NewBuilds(BuildLimits{Memory: 1 << 30, CPU: time.Hour, AtOnce: 1})
	b.places <- struct{}{} // as a build that does not end
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 * cap(places) {
		wg.Go(func() {
			if _, err := Render(ctx, slowBuild(b)); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
	}
	if _, err := Render(t.Context(), Input{Files: map[string][]byte{"a.yaml": []byte(aConfigMap)}}); err != nil {
		t.Error(err)
	}
	cancel()
	wg.Wait()
}

func TestABuildKeepsNumbersAsTheyAre(t *testing.T) {
	const thing = "apiVersion: example.test/v1\nkind: Thing\nmetadata: {name: a}\nspec: {whole: 2, real: 2.0, large: 1e20, tiny: -2.5e-9, max: 9223372036854775807, text: '2', html: '<&>'}\n"
	in := buildOf(map[string]string{"kustomization.yaml": "resources: [a.yaml]", "a.yaml": thing})
	in.Mutations = []v1alpha1.Mutation{{Name: "types", CEL: "Object{spec: Object.spec{types: [type(object.spec.whole) == int, type(object.spec.real) == double, type(object.spec.large) == double]}}"}}
	built, err := Render(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	plain := Input{Files: map[string][]byte{"a.yaml": []byte(thing)}, Mutations: in.Mutations}
	read, err := Render(t.Context(), plain)
	if err != nil {
		t.Fatal(err)
	}
	if built.Digest != read.Digest || !strings.Contains(string(built.Canonical), `"types":[true,true,true]`) {
		t.Errorf("built %s\nread %s", built.Canonical, read.Canonical)
	}
}

func TestAKustomizationNeedsBuilds(t *testing.T) {
	_, err := Render(t.Context(), Input{Files: map[string][]byte{"kustomization.yaml": []byte("resources: []")}})
	if _, known := failure.As(err); err == nil || known {
		t.Errorf("error %v", err)
	}
}

func TestLimitsThatMakeNoSenseAreRefusedByName(t *testing.T) {
	if err := DefaultBuildLimits().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for flag, l := range map[string]BuildLimits{
		"--kustomize-memory":      {Memory: 256, CPU: time.Minute, AtOnce: 1},
		"--kustomize-cpu-time":    {Memory: 256 << 20, CPU: 60, AtOnce: 1},
		"--kustomize-concurrency": {Memory: 256 << 20, CPU: time.Minute},
	} {
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
