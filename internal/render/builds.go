package render

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/subprocess"
)

// buildCommand names the process of a build among the arguments of the program.
const buildCommand = "kustomize-build"

// maxBuildOutput bounds what a build gives, as JSON. It is what a source may have by default: a build may repeat what the
// source holds once, and its objects take the memory of the worker.
const maxBuildOutput = 64 << 20

// minBuildMemory is twice what a process holds that has not built anything yet.
const minBuildMemory = 64 << 20

// BuildLimits are what kustomize builds may take. Messages name the flags that set them.
type BuildLimits struct {
	// Memory of one build, in bytes: --kustomize-memory.
	Memory int64
	// CPU time of one build: --kustomize-cpu-time.
	CPU time.Duration
	// AtOnce is how many builds run at a time: --kustomize-concurrency.
	AtOnce int
}

// DefaultBuildLimits suit a worker with a gibibyte of memory.
func DefaultBuildLimits() BuildLimits {
	return BuildLimits{Memory: 256 << 20, CPU: time.Minute, AtOnce: 2}
}

// Validate refuses limits with which nothing could be built.
func (l BuildLimits) Validate() error {
	if l.Memory < minBuildMemory {
		return fmt.Errorf("--kustomize-memory must be at least %d, which is %d MiB", minBuildMemory, minBuildMemory>>20)
	}
	if l.CPU < time.Second {
		return errors.New("--kustomize-cpu-time must be at least 1s")
	}
	if l.AtOnce <= 0 {
		return errors.New("--kustomize-concurrency must be above 0")
	}
	return nil
}

// Builds runs kustomize builds, each in a process of its own: kustomize can be neither stopped nor bounded, its time grows
// with the square of what it builds, and what one source makes of its schema would shape the builds of others.
type Builds struct {
	limits BuildLimits
	places chan struct{}
	run    func(ctx context.Context, request func(io.Writer) error, answer func(io.Reader) error) error
}

// NewBuilds returns Builds. The program must call ServeBuilds.
func NewBuilds(l BuildLimits) *Builds {
	process := subprocess.Limits{Memory: l.Memory, CPU: l.CPU, Output: maxBuildOutput}
	return &Builds{
		limits: l, places: make(chan struct{}, l.AtOnce),
		run: func(ctx context.Context, request func(io.Writer) error, answer func(io.Reader) error) error {
			return subprocess.Run(ctx, buildCommand, process, request, answer)
		},
	}
}

// ServeBuilds makes the process of a build of this one, if it was started as that, and then does not return. It belongs at
// the beginning of main.
func ServeBuilds() { subprocess.Serve(buildCommand, receiveBuild) }

// enter waits for the place of a build. done gives it back.
func (b *Builds) enter(ctx context.Context) (done func(), err error) {
	if b == nil {
		return nil, errors.New("render: a kustomization needs Builds")
	}
	select {
	case b.places <- struct{}{}:
		return func() { <-b.places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// build has a process build the kustomization in the source's folder.
func (b *Builds) build(ctx context.Context, in Input) (found []located, err error) {
	root, files, err := absolute(in.Path, in.Files)
	if err != nil {
		return nil, err
	}
	err = b.run(ctx,
		func(w io.Writer) error { return sendBuild(w, root, files) },
		func(r io.Reader) (err error) { found, err = readBuild(r); return err })
	if err == nil {
		return found, nil
	}
	if over, ok := errors.AsType[*subprocess.LimitError](err); ok {
		return nil, b.explain(over)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, failure.Transient(v1alpha1.ReasonRenderFailed, err, "the process of the kustomize build ended unexpectedly: %s", exit)
	}
	return nil, err
}

// explain says which limit a build met, and what to do.
func (b *Builds) explain(over *subprocess.LimitError) error {
	switch over.Kind {
	case subprocess.Memory:
		return invalid("the kustomize build needs more than %d MiB of memory; split the source, or set --kustomize-memory of convoy higher", b.limits.Memory>>20)
	case subprocess.CPU:
		return invalid("the kustomize build needs more than %s of CPU time, which grows with the square of the number of objects; split the source, or set --kustomize-cpu-time of convoy higher", b.limits.CPU)
	}
	return invalid("the kustomize build gives more than %d MiB; split the source", maxBuildOutput>>20)
}

// absolute gives the source's folder, and its files by their path in the repository.
func absolute(folder string, files map[string][]byte) (root string, all map[string][]byte, err error) {
	root = path.Join("/", folder)
	up := strings.Count(root, "/")
	if root == "/" {
		up = 0
	}
	all = make(map[string][]byte, len(files))
	for name, content := range files {
		if strings.HasPrefix(name, strings.Repeat("../", up+1)) {
			return "", nil, fmt.Errorf("file %q is outside the repository: the source's path is missing or wrong", name)
		}
		all[path.Join(root, name)] = content
	}
	return root, all, nil
}

// A request is a buildRequest and then the files.
type (
	buildRequest struct {
		Root  string
		Files int
	}
	buildFile struct {
		Name    string
		Content []byte
	}
)

func sendBuild(w io.Writer, root string, files map[string][]byte) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	enc := gob.NewEncoder(buffered)
	if err := enc.Encode(buildRequest{root, len(files)}); err != nil {
		return err
	}
	for name, content := range files {
		if err := enc.Encode(buildFile{name, content}); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// receiveBuild reads a request in the process of a build.
func receiveBuild(r io.Reader) (work func(io.Writer) error, err error) {
	dec := gob.NewDecoder(r)
	var request buildRequest
	if err := dec.Decode(&request); err != nil {
		return nil, err
	}
	files := make(map[string][]byte, request.Files)
	for range request.Files {
		var f buildFile
		if err := dec.Decode(&f); err != nil {
			return nil, err
		}
		files[f.Name] = f.Content
	}
	return func(w io.Writer) error { return writeBuild(w, newTree(request.Root, files)) }, nil
}

// buildLine is a line of the answer: an object, or at the end why there are no more.
type buildLine struct {
	Object  any    `json:"object,omitempty"`
	Invalid string `json:"invalid,omitempty"`
}

func writeBuild(w io.Writer, t *tree) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	enc := json.NewEncoder(buffered)
	err := kustomize(t, func(object any) error { return enc.Encode(buildLine{Object: exact(object)}) })
	if f, ok := failure.As(err); ok {
		err = enc.Encode(buildLine{Invalid: f.Message})
	}
	if err != nil {
		return err
	}
	return buffered.Flush()
}

// exact gives a value whose JSON tells integers and other numbers apart, as a mutation may.
func exact(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = exact(v[k])
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case float64:
		return json.Number(strconv.FormatFloat(v, 'e', -1, 64))
	}
	return v
}

func readBuild(r io.Reader) (found []located, err error) {
	buffered := bufio.NewReaderSize(r, 64<<10)
	for i := 0; ; i++ {
		text, err := buffered.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(text)) == 0 {
			return found, nil
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		var line buildLine
		if err := utiljson.Unmarshal(text, &line); err != nil {
			return nil, fmt.Errorf("read object %d of the build: %w", i+1, err)
		}
		if line.Invalid != "" {
			return nil, invalid("%s", line.Invalid)
		}
		object, ok := line.Object.(map[string]any)
		if !ok {
			return nil, invalid("%s: it is not an object", builtObject(i))
		}
		if found, err = expand(found, object, builtObject(i)); err != nil {
			return nil, err
		}
	}
}
