package render

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

// Input is all that a render depends on.
type Input struct {
	// Files by slash path relative to the source's folder. Paths that begin with "../" are of folders beside it,
	// for kustomize.
	Files map[string][]byte
	// Path is the source's folder within its repository. It is needed when Files has paths that begin with "../".
	Path string
	// Type that the Release asks for; "" to find out.
	Type v1alpha1.RenderType
	// Kept is the type that was found out earlier. A tree that now looks like another type is an error: it
	// would prune what the other reading does not contain.
	Kept v1alpha1.RenderType
	// Mutations, in their order.
	Mutations []v1alpha1.Mutation
	// Context that templates and expressions of mutations read.
	Context delivery.Context
	// Patches are what the mutations read on the hub, by the name of the mutation, for each of PatchesOf that exists.
	Patches map[string][]byte
	// Helm is what a chart is rendered with; nil is a chart without settings, its CRDs included. Only a chart reads it.
	Helm *HelmInput
	// Builds build a kustomization. Only a kustomization reads it.
	Builds *Builds
	// TargetNamespace of the Release, part of the canonical form.
	TargetNamespace string
}

// Output is a render.
type Output struct {
	// Type that was given or found out.
	Type v1alpha1.RenderType
	// Skipped are the files of a plain tree, or the tests and disabled hooks of a chart, that were left out, at most ten.
	Skipped []string
	// Mutations say what each mutation matched, in their order.
	Mutations []v1alpha1.MutationStatus
	Content
	// Canonical form of the Content; Decode reads it.
	Canonical []byte
	// Digest of Canonical, "sha256:" and 64 hexadecimal digits.
	Digest string
}

// places bound how many renders of this process hold their objects in memory at once.
var places = make(chan struct{}, 16)

// Render makes objects of files. It waits while many others do.
//
// Whatever is wrong with the files or a mutation is a terminal failure with reason RenderFailed, whose message
// names the file and document, or the mutation and object, and never holds a value. The failures that waiting may heal are
// that of a chart which asks for an API group that the target does not answer for, and that of a build whose process ended
// for no reason of the source. The only other errors are the one of ctx, which is looked at between steps and ends a build
// at once, and that a process cannot be started.
func Render(ctx context.Context, in Input) (*Output, error) {
	kind, err := TypeOf(in)
	if err != nil {
		return nil, err
	}
	if kind == v1alpha1.RenderKustomize { // before the other place: who waits for a build must not keep charts out
		done, err := in.Builds.enter(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := &Output{Type: kind}
	var found []located
	switch kind {
	case v1alpha1.RenderKustomize:
		found, err = in.Builds.build(ctx, in)
	case v1alpha1.RenderHelm:
		found, out.Skipped, err = helm(ctx, in)
	default:
		found, out.Skipped, err = plain(ctx, in.Files)
	}
	if err != nil {
		return nil, err
	}
	if err := checkAll(ctx, found, in.TargetNamespace); err != nil {
		return nil, err
	}
	if out.Mutations, err = mutate(ctx, found, in); err != nil {
		return nil, err
	}
	if out.Canonical, err = encode(found, in.TargetNamespace); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(out.Canonical)
	out.Digest = "sha256:" + hex.EncodeToString(sum[:])
	// What is applied later is read back from the canonical form, so the objects given out now are, too.
	out.Content, err = Decode(out.Canonical)
	return out, err
}

// TypeOf decides how the tree is read. Its errors are those of Render.
func TypeOf(in Input) (v1alpha1.RenderType, error) {
	_, hasKustomization := kustomizationIn(in.Files, ".")
	_, hasChart := in.Files[chartFile]
	switch {
	case in.Type == v1alpha1.RenderKustomize && !hasKustomization:
		return "", invalid("the source's folder has no kustomization.yaml, and spec.render.type is %s", in.Type)
	case in.Type == v1alpha1.RenderHelm && !hasChart:
		return "", invalid("the source's folder has no %s, and spec.render.type is %s", chartFile, in.Type)
	case in.Type == v1alpha1.RenderKustomize, in.Type == v1alpha1.RenderHelm, in.Type == v1alpha1.RenderPlain:
		return in.Type, nil
	case in.Type != "":
		return "", invalid("spec.render.type %s is not supported; use %s, %s or %s", in.Type,
			v1alpha1.RenderKustomize, v1alpha1.RenderHelm, v1alpha1.RenderPlain)
	case hasKustomization && hasChart && (in.Kept == v1alpha1.RenderKustomize || in.Kept == v1alpha1.RenderHelm):
		return in.Kept, nil
	case hasKustomization && hasChart:
		return "", invalid("the source's folder has both a kustomization.yaml and a %s; set spec.render.type to %s or %s", chartFile,
			v1alpha1.RenderKustomize, v1alpha1.RenderHelm)
	}
	found := v1alpha1.RenderPlain
	switch {
	case hasKustomization:
		found = v1alpha1.RenderKustomize
	case hasChart:
		found = v1alpha1.RenderHelm
	}
	if in.Kept != "" && in.Kept != found {
		return "", invalid("the source was rendered as %s before and looks like %s now; set spec.render.type if that is meant", in.Kept, found)
	}
	return found, nil
}

func invalid(format string, args ...any) error {
	return failure.Terminal(v1alpha1.ReasonRenderFailed, nil, format, args...)
}
