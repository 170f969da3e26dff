package render

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
)

// objectBytes is the size of an object as YAML, roughly.
const objectBytes = 2 << 10

// peakHeap runs do and gives the most bytes that objects had on the heap meanwhile, above what they had before. The
// collector runs often, so that little of it is what nobody needs any more.
func peakHeap(do func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	heap := func() uint64 {
		sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	runtime.GC()
	before := heap()
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		ticker := time.NewTicker(2 * time.Millisecond)
		defer ticker.Stop()
		most := before
		for {
			select {
			case <-ticker.C:
				most = max(most, heap())
			case <-done:
				peak <- most - before
				return
			}
		}
	}()
	do()
	close(done)
	return <-peak
}

// large is a tree of a type with n objects, a hundred in each file. They are mostly short entries of lists, which take
// more memory for their bytes than long texts do.
func large(kind v1alpha1.RenderType, n int) Input {
	in := Input{Files: map[string][]byte{}, Builds: builds, TargetNamespace: "apps"}
	text, folder, resources := strings.Repeat("x", 12), "", []string{}
	if kind == v1alpha1.RenderHelm {
		folder = "templates/"
		in.Files["Chart.yaml"] = []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")
	}
	var file strings.Builder
	for i := range n {
		fmt.Fprintf(&file, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: o-%d, labels: {app: web}}\nspec:\n  containers:\n  - name: a\n    env:\n", i)
		for k := range objectBytes / 44 {
			fmt.Fprintf(&file, "    - {name: KEY_%03d, value: %s}\n", k, text)
		}
		if i%100 == 99 {
			name := fmt.Sprintf("%s%d.yaml", folder, i/100)
			in.Files[name], resources = []byte(file.String()), append(resources, name)
			file.Reset()
		}
	}
	if kind == v1alpha1.RenderKustomize {
		in.Files["kustomization.yaml"] = []byte("resources: [" + strings.Join(resources, ", ") + "]\n")
	}
	return in
}

// What one render holds, read and as objects, is at most half of the 1 GiB that the Deployment of convoy may have. That is
// about twice what it holds today: one whose memory grows faster than its input, or that keeps its objects several times,
// is found. The process of a kustomize build has a limit of its own and is not counted. Charts and kustomizations share the
// way from the objects on: fewer of them show what their own part takes, and leave the race detector done within a minute.
func TestTenThousandObjectsRenderInBoundedMemory(t *testing.T) {
	for kind, tc := range map[v1alpha1.RenderType]struct{ objects, mebibytes int }{
		v1alpha1.RenderPlain:     {10_000, 512},
		v1alpha1.RenderHelm:      {2_000, 128},
		v1alpha1.RenderKustomize: {500, 128},
	} {
		t.Run(string(kind), func(t *testing.T) {
			in := large(kind, tc.objects)
			var out *Output
			var err error
			peak := peakHeap(func() { out, err = Render(t.Context(), in) })
			if err != nil {
				t.Fatal(err)
			}
			if got := int(peak >> 20); len(out.Objects) != tc.objects || got > tc.mebibytes {
				t.Errorf("%d objects took %d MiB, want %d and no more than %d MiB", len(out.Objects), got, tc.objects, tc.mebibytes)
			}
		})
	}
}
