package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kumodo.io/convoy/api/v1alpha1"
)

var onDisk = Limits{AllowFile: true}

func TestARepositoryOnDiskIsReadWhenTheOperatorPermitsIt(t *testing.T) {
	s := newGitServer(t)
	first := s.push(map[string]string{"apps/a.yaml": "a", "apps/link.yaml": "->../f", "f": "one"})
	s.git("tag", "-a", "-m", "annotated", "v1.0.0")
	s.git("push", "-q", "origin", "--tags")
	packed := func() { s.run(s.bare, "gc", "-q") }
	sources := New(nil, anywhere, onDisk)
	for _, prepare := range []func(){func() {}, packed} {
		prepare()
		for _, dir := range []string{s.bare, s.work} {
			url := "file://" + dir
			b, err := sources.Fetch(t.Context(), "team", gitSource(url, "main", "apps"))
			if err != nil || b.Revision != "main@sha1:"+first || texts(b)["link.yaml"] != "one" {
				t.Errorf("%s: %v, %v", dir, b, err)
			}
			for _, ref := range []v1alpha1.GitRef{{}, {Tag: "v1.0.0"}, {SemVer: "1.x"}, {Commit: first}, {Name: "refs/tags/v1.0.0"}} {
				b, err := sources.Fetch(t.Context(), "team", v1alpha1.Source{Git: &v1alpha1.GitSource{URL: url, Ref: ref}})
				if err != nil || !strings.HasSuffix(b.Revision, first) {
					t.Errorf("%v of %s: %v, %v", ref, dir, b, err)
				}
			}
		}
	}
	second := s.push(map[string]string{"f": "two"})
	if b, err := sources.Fetch(t.Context(), "team", gitSource("file://"+s.bare, "main", "")); err != nil || b.Revision != "main@sha1:"+second {
		t.Errorf("the next commit: %v, %v", b, err)
	}
	s.git("checkout", "-q", "--detach", first)
	if b, err := sources.Fetch(t.Context(), "team", v1alpha1.Source{Git: &v1alpha1.GitSource{URL: "file://" + s.work}}); err != nil || b.Revision != "HEAD@sha1:"+first {
		t.Errorf("a detached HEAD: %v, %v", b, err)
	}
}

func TestARepositoryOnDiskGivesItsSubmodules(t *testing.T) {
	s := newGitServer(t)
	lib := s.another("lib")
	commit := lib.push(map[string]string{"lib.yaml": "lib"})
	s.link("vendor", "../lib.git", commit)
	b, err := New(nil, anywhere, onDisk).Fetch(t.Context(), "team", withSubmodules(gitSource("file://"+s.bare, "main", "")))
	if err != nil || string(b.Files["vendor/lib.yaml"]) != "lib" {
		t.Errorf("%v, %v", b, err)
	}
}

func TestFetchNamesWhatIsWrongWithARepositoryOnDisk(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": strings.Repeat("x", 1<<16)})
	s.git("tag", "-a", "-m", "of a file", "file", s.git("rev-parse", "HEAD:f"))
	s.git("push", "-q", "origin", "--tags")
	empty := t.TempDir()
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "HEAD"), []byte("S3NT1NEL"), 0o600); err != nil {
		t.Fatal(err)
	}
	unknown := v1alpha1.GitRef{Commit: "0123456789012345678901234567890123456789"}
	for name, tc := range map[string]struct {
		dir             string
		ref             v1alpha1.GitRef
		limits          Limits
		reason, message string
	}{
		"no repository": {empty, v1alpha1.GitRef{}, onDisk, v1alpha1.ReasonSourceNotFound, "repository URL does not exist"},
		"no folder":     {filepath.Join(empty, "x"), v1alpha1.GitRef{}, onDisk, v1alpha1.ReasonSourceNotFound, "repository URL does not exist"},
		"no branch":     {s.bare, v1alpha1.GitRef{Branch: "x"}, onDisk, v1alpha1.ReasonSourceNotFound, "repository URL has no branch x; what was delivered stays"},
		"no commit":     {s.bare, unknown, onDisk, v1alpha1.ReasonSourceNotFound, "repository URL has no commit " + unknown.Commit + ", or its server does not give it; what was delivered stays"},
		"a file":        {s.bare, v1alpha1.GitRef{Tag: "file"}, onDisk, v1alpha1.ReasonSourceFailed, "repository URL, tag file: that is no commit"},
		"too big":       {s.bare, v1alpha1.GitRef{}, Limits{AllowFile: true, MaxRepositoryBytes: 1 << 12}, v1alpha1.ReasonSourceFailed, "repository URL holds more than 4096 bytes in one commit; raise --source-max-repository-bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			url := "file://" + tc.dir
			_, err := New(nil, anywhere, tc.limits).Fetch(t.Context(), "team", v1alpha1.Source{Git: &v1alpha1.GitSource{URL: url, Ref: tc.ref}})
			wantFailure(t, err, url, false, tc.reason, tc.message)
		})
	}
	url := "file://" + broken
	if _, err := New(nil, anywhere, onDisk).Fetch(t.Context(), "team", gitSource(url, "main", "")); err == nil || strings.Contains(err.Error(), "S3NT1NEL") {
		t.Errorf("a file that is no repository: %v", err)
	}
	v := &vault{}
	_, err := New(v, anywhere, onDisk).Fetch(t.Context(), "team", with(gitSource(url, "main", ""), "s"))
	wantFailure(t, err, "", true, v1alpha1.ReasonSourceFailed, "spec.source.git.url is a file URL, which needs no credentials; remove spec.source.git.secretRef")
}
