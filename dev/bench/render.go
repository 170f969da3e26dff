package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/render"
)

// The suite render runs in processes of this program itself: one for each case, so that its peak of memory is its own. Here
// alone the bench calls into convoy, because a render touches nothing.

// renderCase is what one process renders.
type renderCase struct {
	Kind    string // plain, kustomize or helm
	Objects int
	Mutate  bool
	Theirs  bool // by the library itself
}

// renderFigures are what it took.
type renderFigures struct {
	Seconds float64 `json:"seconds"` // of one render: the median
	PeakMiB float64 `json:"peakMiB"` // of the larger one, when there is a process of a build besides
}

// renderSizes are how many objects are rendered.
var renderSizes = []int{10, 1000, 10_000}

// renderRow is one line of the table: a case of ours, and the same without mutations by the library itself, which is the
// decoder of kubectl for plain files. They run one after the other.
type renderRow struct {
	Kind      string        `json:"kind"`
	Objects   int           `json:"objects"`
	Mutations bool          `json:"mutations"`
	Ours      renderFigures `json:"ours"`
	Theirs    renderFigures `json:"theirs"`
}

// renderResult is the outcome of the suite render.
type renderResult struct {
	Version string      `json:"version"` // of the convoy that was built beside
	Suite   string      `json:"suite"`
	Rows    []renderRow `json:"rows"`
}

// measureRenders measures all cases, and prints a line of the table as soon as it is known: some take minutes.
func measureRenders(ctx context.Context, o options, out io.Writer) (*renderResult, error) {
	of, err := version(ctx, o.Convoy)
	if err != nil {
		return nil, err
	}
	r := &renderResult{Version: of, Suite: suiteRender}
	_, _ = fmt.Fprintf(out, "%-9s  %7s  %9s  %11s  %9s  %8s  %11s  %8s  %14s\n",
		"render", "objects", "mutations", "ours", "objects/s", "peak", "theirs", "peak", "ours by theirs")
	for _, kind := range []string{kindPlain, kindKustomize, kindHelm} {
		for _, n := range renderSizes {
			theirs, err := inProcess(ctx, renderCase{kind, n, false, true})
			if err != nil {
				return nil, err
			}
			for _, mutate := range []bool{false, true} {
				ours, err := inProcess(ctx, renderCase{kind, n, mutate, false})
				if err != nil {
					return nil, err
				}
				row := renderRow{kind, n, mutate, ours, theirs}
				r.Rows = append(r.Rows, row)
				row.print(out)
			}
		}
	}
	return r, nil
}

func (w renderRow) print(out io.Writer) {
	_, _ = fmt.Fprintf(out, "%-9s  %7d  %9v  %8.1f ms  %9.0f  %4.0f MiB  %8.1f ms  %4.0f MiB  %14.2f\n", w.Kind, w.Objects, w.Mutations,
		1000*w.Ours.Seconds, float64(w.Objects)/w.Ours.Seconds, w.Ours.PeakMiB, 1000*w.Theirs.Seconds, w.Theirs.PeakMiB, w.Ours.Seconds/w.Theirs.Seconds)
}

// line writes the result as one line of JSON.
func (r *renderResult) line(out io.Writer) error { return json.NewEncoder(out).Encode(r) }

// benchstat writes the result as lines of the Go benchmark format.
func (r *renderResult) benchstat(out io.Writer) error {
	for _, w := range r.Rows {
		_, err := fmt.Fprintf(out, "BenchmarkRender/%s/objects=%d/mutations=%v 1 %d ns/op %.1f peak-MiB %d theirs-ns/op %.1f theirs-peak-MiB\n",
			w.Kind, w.Objects, w.Mutations, int64(w.Ours.Seconds*1e9), w.Ours.PeakMiB, int64(w.Theirs.Seconds*1e9), w.Theirs.PeakMiB)
		if err != nil {
			return err
		}
	}
	return nil
}

// inProcess measures a case in a process of its own.
func inProcess(ctx context.Context, c renderCase) (renderFigures, error) {
	arg, err := json.Marshal(c)
	if err != nil {
		return renderFigures{}, err
	}
	cmd := exec.CommandContext(ctx, os.Args[0], renderCaseArg, string(arg)) //nolint:gosec // this very program
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return renderFigures{}, fmt.Errorf("render %s: %w", arg, err)
	}
	var f renderFigures
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		return renderFigures{}, fmt.Errorf("render %s: %w", arg, err)
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return renderFigures{}, errors.New("the peak of memory is not known on this system")
	}
	f.PeakMiB = float64(usage.Maxrss) / maxRSSPerMiB
	return f, nil
}

// renderCaseArg makes this program a process that measures one case.
const renderCaseArg = "render-case"

// A case is rendered until it was rendered often enough, or for long enough; once at least.
const (
	maxRuns    = 50
	enoughTime = 10 * time.Second
)

// runRenderCase is that process.
func runRenderCase(ctx context.Context, arg string, out io.Writer) error {
	var c renderCase
	if err := json.Unmarshal([]byte(arg), &c); err != nil {
		return err
	}
	in := renderInput(c)
	var seconds []float64
	for first := time.Now(); len(seconds) < maxRuns && (len(seconds) == 0 || time.Since(first) < enoughTime); {
		began := time.Now()
		n, err := c.once(ctx, in)
		seconds = append(seconds, time.Since(began).Seconds())
		if err != nil {
			return err
		}
		if n != c.Objects {
			return fmt.Errorf("%d objects came out, want %d", n, c.Objects)
		}
		debug.FreeOSMemory()
	}
	slices.Sort(seconds)
	return json.NewEncoder(out).Encode(renderFigures{Seconds: seconds[len(seconds)/2]})
}

// once renders, and gives how many objects came out.
func (c renderCase) once(ctx context.Context, in render.Input) (int, error) {
	if !c.Theirs {
		out, err := render.Render(ctx, in)
		if err != nil {
			return 0, err
		}
		return len(out.Objects), nil
	}
	switch c.Kind {
	case kindKustomize:
		return theirKustomize(in)
	case kindHelm:
		return theirHelm(in)
	}
	n := 0
	for _, content := range in.Files {
		found, err := decodeAll(content)
		if err != nil {
			return 0, err
		}
		n += found
	}
	return n, nil
}

// decodeAll decodes documents as kubectl does, and counts them.
func decodeAll(text []byte) (n int, err error) {
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16); ; {
		o := unstructured.Unstructured{}
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if len(o.Object) > 0 {
			n++
		}
	}
}

// benchLimits let the largest build end, which a worker refuses by default.
var benchLimits = render.BuildLimits{Memory: 4 << 30, CPU: time.Hour, AtOnce: 1}

// renderInput makes the files of a case.
func renderInput(c renderCase) render.Input {
	in := render.Input{
		Files: renderFiles(c.Kind, c.Objects), Builds: render.NewBuilds(benchLimits), TargetNamespace: "web",
		Context: delivery.Context{Cluster: map[string]string{"name": "east", "region": "eu-1"}, Release: delivery.ReleaseContext{Name: "app", Namespace: "default"}},
		Helm:    &render.HelmInput{ReleaseName: "app", Namespace: "web", Values: map[string]any{"tag": "2"}, Capabilities: render.Capabilities{KubernetesVersion: renderKubernetes}},
	}
	if c.Mutate {
		in.Mutations = []v1alpha1.Mutation{
			{
				Name: "region", Target: v1alpha1.MutationTarget{Group: "apps", Kind: "Deployment"},
				Patch: v1alpha1.Patch{Type: v1alpha1.PatchStrategic, Template: "metadata: {labels: {region: '{{ .cluster.region }}'}}"},
			},
			{
				Name: "replicas", Target: v1alpha1.MutationTarget{Group: "apps", Kind: "Deployment"},
				CEL: "Object{spec: Object.spec{replicas: object.spec.replicas + 1}}",
			},
		}
	}
	return in
}
