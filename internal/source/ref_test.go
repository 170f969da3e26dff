package source

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestARefSelectsOneCommit(t *testing.T) {
	hash := func(digit string) plumbing.Hash { return plumbing.NewHash(strings.Repeat(digit, 40)) }
	refs := packp.NewAdvRefs()
	head := hash("1")
	refs.Head = &head
	if err := refs.Capabilities.Add(capability.SymRef, "HEAD:refs/heads/trunk"); err != nil {
		t.Fatal(err)
	}
	for name, digit := range map[string]string{
		"refs/heads/trunk": "1", "refs/heads/v9.0.0": "2", "refs/pull/7/head": "3",
		"refs/tags/v1.2.3": "4", "refs/tags/1.10.0": "5", "refs/tags/v1.11.0-rc.1": "6", "refs/tags/v2.0.0": "7",
		"refs/tags/20240101": "8", "refs/tags/v1": "8", "refs/tags/app/v1.50.0": "8", "refs/tags/v1.10.0": "9",
	} {
		refs.References[name] = hash(digit)
	}
	refs.Peeled["refs/tags/v2.0.0"] = hash("a")
	for name, tc := range map[string]struct {
		ref  v1alpha1.GitRef
		want string // the revision with its digest cut to a digit; or the error
	}{
		"none":                       {v1alpha1.GitRef{}, "trunk@sha1:1"},
		"a branch":                   {v1alpha1.GitRef{Branch: "v9.0.0"}, "v9.0.0@sha1:2"},
		"a branch, not a tag":        {v1alpha1.GitRef{Branch: "v1.2.3"}, "no such reference"},
		"a tag":                      {v1alpha1.GitRef{Tag: "v1.2.3"}, "v1.2.3@sha1:4"},
		"a tag, not a branch":        {v1alpha1.GitRef{Tag: "trunk"}, "no such reference"},
		"an annotated tag":           {v1alpha1.GitRef{Tag: "v2.0.0"}, "v2.0.0@sha1:a"},
		"a range":                    {v1alpha1.GitRef{SemVer: "~1.2"}, "v1.2.3@sha1:4"},
		"numbers, not texts":         {v1alpha1.GitRef{SemVer: ">=1.2.0 <2.0.0"}, "v1.10.0@sha1:9"},
		"a range with a pre-release": {v1alpha1.GitRef{SemVer: ">=1.2.0-0 <2.0.0"}, "v1.11.0-rc.1@sha1:6"},
		"any version":                {v1alpha1.GitRef{SemVer: "*"}, "v2.0.0@sha1:a"},
		"an exact version":           {v1alpha1.GitRef{SemVer: "1.2.3"}, "v1.2.3@sha1:4"},
		"an empty range":             {v1alpha1.GitRef{SemVer: ">2"}, "no such reference"},
		"a commit":                   {v1alpha1.GitRef{Commit: strings.Repeat("b", 40)}, "sha1:b"},
		"a full name":                {v1alpha1.GitRef{Name: "refs/pull/7/head"}, "refs/pull/7/head@sha1:3"},
		"a full name of a tag":       {v1alpha1.GitRef{Name: "refs/tags/v2.0.0"}, "refs/tags/v2.0.0@sha1:a"},
		"two":                        {v1alpha1.GitRef{Branch: "a", Tag: "b"}, "names more than one of branch, tag, semver, commit and name"},
		"no range":                   {v1alpha1.GitRef{SemVer: "newest"}, "has a semver that is no range of versions, such as >=1.2.0 <2.0.0"},
		"a short commit":             {v1alpha1.GitRef{Commit: "abc"}, "has a commit that is not 40 lower-case hexadecimal digits"},
		"a short name":               {v1alpha1.GitRef{Name: "main"}, "has a name that does not begin with refs/"},
	} {
		r, err := checkRef(tc.ref)
		var chosen choice
		if err == nil {
			chosen, err = r.choose(refs)
		}
		got := ""
		if err != nil {
			got = err.Error()
		} else if got = chosen.revision(); len(got) > 40 {
			got = got[:len(got)-39]
		}
		if got != tc.want {
			t.Errorf("%s selects %q, want %q", name, got, tc.want)
		}
	}
	if w := wanted(refs, hash("a")); w != hash("7") {
		t.Errorf("the commit behind an annotated tag is asked for as %s", w)
	}
	if w := wanted(refs, hash("c")); w != hash("c") {
		t.Errorf("an unlisted commit is asked for as %s", w)
	}
}

func TestADetachedHeadIsCalledSo(t *testing.T) {
	refs := packp.NewAdvRefs()
	head := plumbing.NewHash(strings.Repeat("1", 40))
	refs.Head = &head
	chosen, err := ref{}.choose(refs)
	if err != nil || chosen.revision() != "HEAD@sha1:"+head.String() {
		t.Errorf("%v, %v", chosen, err)
	}
}

// atRef is a source of the server at a reference.
func (s *gitServer) atRef(ref v1alpha1.GitRef) v1alpha1.Source {
	return v1alpha1.Source{Git: &v1alpha1.GitSource{URL: s.url, Ref: ref}}
}

func TestFetchTakesEachKindOfReference(t *testing.T) {
	s := newGitServer(t)
	first := s.push(map[string]string{"f": "one"})
	s.git("tag", "-a", "-m", "annotated", "v1.0.0")
	s.git("tag", "-a", "-m", "of a tag", "nested", "v1.0.0")
	second := s.push(map[string]string{"f": "two"})
	s.git("tag", "v1.1.0")
	s.git("push", "-q", "origin", "--tags", "HEAD:refs/pull/1/head")
	third := s.push(map[string]string{"f": "three"})
	for name, tc := range map[string]struct {
		ref      v1alpha1.GitRef
		revision string
	}{
		"none":             {v1alpha1.GitRef{}, "main@sha1:" + third},
		"an annotated tag": {v1alpha1.GitRef{Tag: "v1.0.0"}, "v1.0.0@sha1:" + first},
		"a tag of a tag":   {v1alpha1.GitRef{Tag: "nested"}, "nested@sha1:" + first},
		"a light tag":      {v1alpha1.GitRef{Tag: "v1.1.0"}, "v1.1.0@sha1:" + second},
		"a range":          {v1alpha1.GitRef{SemVer: "1.x"}, "v1.1.0@sha1:" + second},
		"a full name":      {v1alpha1.GitRef{Name: "refs/pull/1/head"}, "refs/pull/1/head@sha1:" + second},
		"a commit":         {v1alpha1.GitRef{Commit: second}, "sha1:" + second},
		"a tagged commit":  {v1alpha1.GitRef{Commit: first}, "sha1:" + first},
	} {
		sources := New(nil, anywhere, Limits{})
		b, err := sources.Fetch(t.Context(), "team", s.atRef(tc.ref))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if b.Revision != tc.revision {
			t.Errorf("%s is %s, want %s", name, b.Revision, tc.revision)
		}
		again, err := New(nil, anywhere, Limits{}).Open(t.Context(), "team", s.atRef(tc.ref), b.Revision)
		if err != nil || again.Digest != b.Digest || again.Revision != b.Revision {
			t.Errorf("%s on another worker: %v, %v", name, again, err)
		}
	}
}

func TestFetchFollowsWhatReferencesBecome(t *testing.T) {
	s := newGitServer(t)
	sources := New(nil, anywhere, Limits{})
	expect := func(ref v1alpha1.GitRef, revision string) {
		t.Helper()
		b, err := sources.Fetch(t.Context(), "team", s.atRef(ref))
		if err != nil || b.Revision != revision {
			t.Errorf("%v is %v, %v, want %s", ref, b, err, revision)
		}
	}
	tag, anything := v1alpha1.GitRef{Tag: "v1.0.0"}, v1alpha1.GitRef{SemVer: "*"}
	first := s.push(map[string]string{"f": "one"})
	s.git("tag", "v1.0.0")
	s.git("push", "-q", "origin", "--tags")
	expect(tag, "v1.0.0@sha1:"+first)
	expect(anything, "v1.0.0@sha1:"+first)

	second := s.push(map[string]string{"f": "two"})
	s.git("tag", "-f", "-a", "-m", "moved", "v1.0.0")
	s.git("push", "-q", "-f", "origin", "--tags")
	expect(tag, "v1.0.0@sha1:"+second)

	s.git("branch", "-m", "main", "trunk")
	s.git("push", "-q", "origin", "trunk")
	s.run(s.bare, "symbolic-ref", "HEAD", "refs/heads/trunk")
	s.run(s.bare, "update-ref", "-d", "refs/heads/main")
	expect(v1alpha1.GitRef{}, "trunk@sha1:"+second)
	rewritten := func() string {
		s.git("checkout", "-q", "--orphan", "other")
		s.git("commit", "-q", "--allow-empty", "-m", "rewritten")
		s.git("push", "-q", "-f", "origin", "HEAD:trunk")
		return s.git("rev-parse", "HEAD")
	}()
	expect(v1alpha1.GitRef{}, "trunk@sha1:"+rewritten)

	s.run(s.bare, "tag", "-d", "v1.0.0")
	missing := strings.Repeat("0123456789", 4)
	for message, ref := range map[string]v1alpha1.GitRef{
		"tag v1.0.0; what was delivered stays":                                             tag,
		"tag in the range *; what was delivered stays":                                     anything,
		"branch main; what was delivered stays":                                            {Branch: "main"},
		"reference refs/pull/1/head; what was delivered stays":                             {Name: "refs/pull/1/head"},
		"commit " + missing + ", or its server does not give it; what was delivered stays": {Commit: missing},
	} {
		_, err := sources.Fetch(t.Context(), "team", s.atRef(ref))
		wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceNotFound, "repository URL has no "+message)
	}
	s.run(s.bare, "symbolic-ref", "HEAD", "refs/heads/gone")
	_, err := sources.Fetch(t.Context(), "team", s.atRef(v1alpha1.GitRef{}))
	wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceNotFound, "repository URL has no default branch; what was delivered stays")
}

func TestATagOfAFileIsNoCommit(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "one"})
	s.git("tag", "-a", "-m", "of a file", "file", s.git("rev-parse", "HEAD:f"))
	s.git("push", "-q", "origin", "--tags")
	_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.atRef(v1alpha1.GitRef{Tag: "file"}))
	wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceFailed, "repository URL, tag file: that is no commit")
}
