// Command check refuses CRDs that an upgrade would break stored objects or clients with. It decides what they are compared with:
// those of the newest tag, before the first one those of the commit before the last one that changed them. make verify calls it, at
// the root of the repository.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/deploy/crds"
)

// folder has the CRDs, exceptions what is meant to break, a line for each with the reason above it.
const (
	folder     = "deploy/crd"
	exceptions = "deploy/crds/exceptions.txt"
)

func main() {
	root := flag.String("root", ".", "root of the repository")
	base := flag.String("base", "", "commit to compare with; else the newest tag, or what was before the last change")
	flag.Parse()
	if err := check(context.Background(), repository(*root), *base, os.Stdout); err != nil { //nolint:forbidigo // the lifetime of the process
		fmt.Fprintln(os.Stderr, "crds:", err)
		os.Exit(1)
	}
}

// repository is the folder of a checkout.
type repository string

func (r repository) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", string(r)}, args...)...) //nolint:gosec // arguments of this program
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// base is the commit whose CRDs those of the folder are to follow; empty when the clone does not hold it.
func (r repository) base(ctx context.Context) string {
	if tag, err := r.git(ctx, "describe", "--tags", "--abbrev=0"); err == nil {
		return tag
	}
	if changed, err := r.git(ctx, "status", "--porcelain", "--", folder); err == nil && changed != "" {
		return "HEAD"
	}
	last, err := r.git(ctx, "log", "-1", "--format=%H", "--", folder)
	if err != nil || last == "" {
		return ""
	}
	before, err := r.git(ctx, "rev-parse", "--verify", "--quiet", last+"^")
	if err != nil {
		return ""
	}
	return before
}

func check(ctx context.Context, r repository, base string, out io.Writer) error {
	if base == "" {
		base = r.base(ctx)
	}
	if base == "" {
		fmt.Fprintln(out, "crds: nothing to compare with: this clone does not hold what was before their last change")
		return nil
	}
	listed, err := r.git(ctx, "ls-tree", "--name-only", base, folder+"/")
	if err != nil {
		return err
	}
	meant, err := r.meant()
	if err != nil {
		return err
	}
	var found []string
	for name := range strings.FieldsSeq(listed) {
		broken, err := r.broken(ctx, base, name)
		if err != nil {
			return err
		}
		found = append(found, broken...)
	}
	found = slices.DeleteFunc(found, func(text string) bool { return slices.Contains(meant, text) })
	if len(found) > 0 {
		return fmt.Errorf("since %s, what is stored on hubs or sent by clients is not taken any more:\n  %s\n"+
			"keep it and mark it as deprecated, or serve it in a version of its own; if it is meant, add the line to %s, with the reason",
			base, strings.Join(found, "\n  "), exceptions)
	}
	fmt.Fprintf(out, "crds: they take what those of %s take\n", base)
	return nil
}

// meant are the lines that name what is meant to break.
func (r repository) meant() (lines []string, err error) {
	text, err := os.ReadFile(filepath.Join(string(r), exceptions))
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// broken is what the file of a CRD does not take any more, with the name of the CRD.
func (r repository) broken(ctx context.Context, base, name string) ([]string, error) {
	before, err := r.git(ctx, "show", base+":"+name)
	if err != nil {
		return nil, err
	}
	old, err := read(name, []byte(before))
	if err != nil {
		return nil, err
	}
	now, err := os.ReadFile(filepath.Join(string(r), filepath.FromSlash(name)))
	if os.IsNotExist(err) {
		return []string{old.Name + ": the CRD is gone"}, nil
	}
	if err != nil {
		return nil, err
	}
	next, err := read(path.Base(name), now)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, text := range crds.Breaks(old, next) {
		found = append(found, old.Name+": "+text)
	}
	return found, nil
}

func read(name string, text []byte) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal(text, crd); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return crd, nil
}
