package source

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"kumodo.io/convoy/api/v1alpha1"
)

const (
	branches = "refs/heads/"
	tags     = "refs/tags/"
)

var (
	errManyRefs  = errors.New("names more than one of branch, tag, semver, commit and name")
	errRange     = errors.New("has a semver that is no range of versions, such as >=1.2.0 <2.0.0")
	errNoCommit  = errors.New("has a commit that is not 40 lower-case hexadecimal digits")
	errNoRefName = errors.New("has a name that does not begin with refs/")

	commitDigest = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// ref selects a commit of a repository. The zero value is the default branch.
type ref struct {
	v1alpha1.GitRef
	versions *semver.Constraints
}

func checkRef(r v1alpha1.GitRef) (ref, error) {
	given := 0
	for _, text := range []string{r.Branch, r.Tag, r.SemVer, r.Commit, r.Name} {
		if text != "" {
			given++
		}
	}
	out := ref{GitRef: r}
	switch {
	case given > 1:
		return ref{}, errManyRefs
	case r.Commit != "" && !commitDigest.MatchString(r.Commit):
		return ref{}, errNoCommit
	case r.Name != "" && !strings.HasPrefix(r.Name, "refs/"):
		return ref{}, errNoRefName
	case r.SemVer != "":
		versions, err := semver.NewConstraint(r.SemVer)
		if err != nil {
			return ref{}, errRange
		}
		out.versions = versions
	}
	return out, nil
}

// String names the ref in messages.
func (r ref) String() string {
	switch {
	case r.Branch != "":
		return "branch " + r.Branch
	case r.Tag != "":
		return "tag " + r.Tag
	case r.SemVer != "":
		return "range " + r.SemVer
	case r.Commit != "":
		return "commit " + r.Commit
	case r.Name != "":
		return "reference " + r.Name
	}
	return "default branch"
}

// missing says, behind "has no", what a repository lacks.
func (r ref) missing() string {
	if r.SemVer != "" {
		return "tag in the range " + r.SemVer
	}
	return r.String()
}

// choice is the commit that a ref selects, and the name by which the revision tells where it was found; empty when the
// commit itself was asked for.
type choice struct {
	label  string
	commit plumbing.Hash
}

func (c choice) revision() string {
	if c.label == "" {
		return "sha1:" + c.commit.String()
	}
	return c.label + "@sha1:" + c.commit.String()
}

// choose finds the commit among the references of a repository. The error is errNoRef when there is none.
func (r ref) choose(refs *packp.AdvRefs) (choice, error) {
	switch {
	case r.Commit != "":
		return choice{"", plumbing.NewHash(r.Commit)}, nil
	case r.Branch != "":
		return named(refs, branches+r.Branch, r.Branch)
	case r.Tag != "":
		return named(refs, tags+r.Tag, r.Tag)
	case r.Name != "":
		return named(refs, r.Name, r.Name)
	case r.SemVer != "":
		tag, ok := r.newest(refs)
		if !ok {
			return choice{}, errNoRef
		}
		return named(refs, tags+tag, tag)
	}
	if refs.Head == nil {
		return choice{}, errNoRef
	}
	return choice{headName(refs), *refs.Head}, nil
}

// named gives what a reference names; of an annotated tag that is the commit behind it.
func named(refs *packp.AdvRefs, name, label string) (choice, error) {
	hash, ok := refs.References[name]
	if peeled, annotated := refs.Peeled[name]; annotated {
		hash = peeled
	}
	if !ok {
		return choice{}, errNoRef
	}
	return choice{label, hash}, nil
}

// headName is the branch that HEAD names, or HEAD when it names a commit or the server does not tell.
func headName(refs *packp.AdvRefs) string {
	for _, link := range refs.Capabilities.Get(capability.SymRef) {
		if name, ok := strings.CutPrefix(link, "HEAD:"); ok {
			return strings.TrimPrefix(name, branches)
		}
	}
	return "HEAD"
}

// newest is the tag of the highest version in the range.
func (r ref) newest(refs *packp.AdvRefs) (string, bool) {
	var labels []string
	for name := range refs.References {
		if tag, ok := strings.CutPrefix(name, tags); ok {
			labels = append(labels, tag)
		}
	}
	return newestVersion(labels, r.versions)
}

// newestVersion is the label of the highest version in the range. Of labels that differ in nothing that counts, such as
// 1.0.0 and v1.0.0, it is the last one by name, so that the answer does not change.
func newestVersion(labels []string, in *semver.Constraints) (string, bool) {
	var best string
	var highest *semver.Version
	for _, label := range slices.Sorted(slices.Values(labels)) {
		// Strictly, three numbers: else the tag of a date would be the highest version of all.
		v, err := semver.StrictNewVersion(strings.TrimPrefix(label, "v"))
		if err == nil && in.Check(v) && (highest == nil || !v.LessThan(highest)) {
			best, highest = label, v
		}
	}
	return best, highest != nil
}

// wanted is what to ask a server for to get a commit. Servers may only give what they listed, and of an annotated tag
// that is the tag.
func wanted(refs *packp.AdvRefs, commit plumbing.Hash) plumbing.Hash {
	var tag plumbing.Hash
	for name, peeled := range refs.Peeled {
		if peeled == commit {
			tag = refs.References[name]
		}
	}
	for _, hash := range refs.References {
		if hash == commit {
			return commit
		}
	}
	if tag.IsZero() {
		return commit
	}
	return tag
}
