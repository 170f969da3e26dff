package source

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kumodo.io/convoy/api/v1alpha1"
)

// link commits a submodule to the work tree, with its line in .gitmodules unless the URL is empty.
func (s *gitServer) link(path, url, commit string) {
	s.t.Helper()
	s.git("update-index", "--add", "--cacheinfo", "160000,"+commit+","+path)
	if url != "" {
		s.git("config", "-f", ".gitmodules", "submodule."+path+".path", path)
		s.git("config", "-f", ".gitmodules", "submodule."+path+".url", url)
		s.git("add", ".gitmodules")
	}
	s.git("commit", "-q", "-m", "submodule")
	s.git("push", "-q", "-f", "origin", "HEAD")
}

// serveAnyCommit makes the server give commits that are no tips, as public hosts do.
func (s *gitServer) serveAnyCommit() {
	s.run(s.bare, "config", "uploadpack.allowReachableSHA1InWant", "true")
}

func withSubmodules(src v1alpha1.Source) v1alpha1.Source {
	git := *src.Git
	git.Submodules = true
	return v1alpha1.Source{Git: &git}
}

func TestTheFolderOfASubmoduleIsEmptyUnlessSubmodulesAreTaken(t *testing.T) {
	s := newGitServer(t)
	lib, deep := s.another("lib"), s.another("deep")
	leaf := deep.push(map[string]string{"leaf.yaml": "leaf"})
	lib.push(map[string]string{"lib.yaml": "lib"})
	lib.link("nested", "../deep.git", leaf)
	libCommit := lib.git("rev-parse", "HEAD")
	lib.serveAnyCommit()
	lib.push(map[string]string{"lib.yaml": "newer, and not what the source names"})
	s.push(map[string]string{"apps/ok.yaml": "ok", "apps/link": "->vendor/lib.yaml"})
	s.git("rm", "-q", "apps/link")
	s.link("apps/vendor", "../lib.git", libCommit)

	sources := New(nil, anywhere, Limits{})
	b, err := sources.Fetch(t.Context(), "team", s.source("apps"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"ok.yaml": "ok"}, texts(b)); diff != "" {
		t.Errorf("without submodules (-want +got):\n%s", diff)
	}
	_, err = sources.Fetch(t.Context(), "team", s.source("apps/vendor"))
	wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceNotFound, "repository URL, branch main: the path apps/vendor is a submodule, which is only taken with spec.source.git.submodules")

	b, err = sources.Fetch(t.Context(), "team", withSubmodules(s.source("apps")))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ok.yaml": "ok", "vendor/lib.yaml": "lib", "vendor/.gitmodules": "", "vendor/nested/leaf.yaml": "leaf"}
	got := texts(b)
	got["vendor/.gitmodules"] = ""
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with submodules (-want +got):\n%s", diff)
	}
	inner, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", withSubmodules(s.source("apps/vendor/nested")))
	if err != nil || string(inner.Files["leaf.yaml"]) != "leaf" {
		t.Errorf("a path within a submodule: %v, %v", inner, err)
	}
	packs := s.packs.Load()
	if again, err := sources.Open(t.Context(), "team", withSubmodules(s.source("apps")), b.Revision); err != nil || again != b || s.packs.Load() != packs {
		t.Errorf("from the cache: %v, %v", again, err)
	}
}

func TestASubmoduleThatCannotBeTakenIsNamed(t *testing.T) {
	s := newGitServer(t)
	base := strings.TrimSuffix(s.url, "/app.git")
	lib := s.another("lib")
	commit := lib.push(map[string]string{"lib.yaml": strings.Repeat("x", 4096)})
	const unknown = "0123456789012345678901234567890123456789"
	for name, tc := range map[string]struct{ url, commit, reason, message string }{
		"no URL":           {"", commit, v1alpha1.ReasonSourceFailed, `repository URL, branch main: "vendor" is a submodule of which .gitmodules gives no URL`},
		"an odd URL":       {"ext::sh -c true", commit, v1alpha1.ReasonSourceFailed, `repository URL, branch main: "vendor" is a submodule of which .gitmodules gives a URL that is not supported; use https, or one that is relative`},
		"credentials":      {"https://u:S3NT1NEL@127.0.0.1/x", commit, v1alpha1.ReasonSourceFailed, `repository URL, branch main: "vendor" is a submodule of which .gitmodules gives a URL that is not supported; use https, or one that is relative`},
		"a climbing URL":   {"../../lib.git", commit, v1alpha1.ReasonSourceFailed, `repository URL, branch main: "vendor" is a submodule of which .gitmodules gives a URL that is not supported; use https, or one that is relative`},
		"this machine":     {"file:///etc", commit, v1alpha1.ReasonSourceFailed, `repository URL, branch main: "vendor" is a submodule of which .gitmodules gives a URL that is not supported; use https, or one that is relative`},
		"ssh":              {"git@127.0.0.1:x", commit, v1alpha1.ReasonSourceFailed, `repository URL, branch main: "vendor" is a submodule that needs ssh, for whose host there are no credentials; only those of the source's own host and user are used`},
		"no repository":    {"../missing.git", commit, v1alpha1.ReasonSourceNotFound, `submodule "vendor": repository BASE/missing.git does not exist`},
		"no commit":        {"../lib.git", unknown, v1alpha1.ReasonSourceNotFound, `submodule "vendor": repository BASE/lib.git does not give the commit`},
		"a refused host":   {"http://169.254.169.254/lib", commit, v1alpha1.ReasonSourceFailed, `submodule "vendor": repository http://169.254.169.254/lib cannot be fetched: convoy does not connect to link-local addresses`},
		"the limit is one": {"../lib.git", commit, v1alpha1.ReasonSourceFailed, `repository URL holds more than 6000 bytes in one commit; raise --source-max-repository-bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			app := s.another("app-" + strings.ReplaceAll(name, " ", "-"))
			app.push(map[string]string{"f": strings.Repeat("y", 2048)})
			app.link("vendor", tc.url, tc.commit)
			limits := Limits{}
			if name == "the limit is one" {
				limits.MaxRepositoryBytes = 6000
			}
			_, err := New(nil, anywhere, limits).Fetch(t.Context(), "team", withSubmodules(app.source("")))
			wantFailure(t, err, app.url, false, tc.reason, strings.ReplaceAll(tc.message, "BASE", base))
		})
	}
}

func TestSubmodulesAreBoundInNumberAndDepth(t *testing.T) {
	s := newGitServer(t)
	leaf := s.another("leaf")
	commit := leaf.push(map[string]string{"leaf.yaml": "leaf"})

	many := s.another("many")
	many.push(nil)
	for i := range maxSubmodules + 1 {
		many.git("update-index", "--add", "--cacheinfo", fmt.Sprintf("160000,%s,m%02d", commit, i))
	}
	many.git("commit", "-q", "-m", "many")
	many.git("push", "-q", "origin", "HEAD")
	_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", withSubmodules(many.source("")))
	wantFailure(t, err, many.url, false, v1alpha1.ReasonSourceFailed, "repository URL holds more than 32 submodules")

	below, name := commit, "leaf"
	for i := range maxSubmoduleDepth + 1 {
		level := s.another(fmt.Sprintf("level%d", i))
		level.link("down", "../"+name+".git", below)
		below, name = level.git("rev-parse", "HEAD"), fmt.Sprintf("level%d", i)
		top, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", withSubmodules(level.source("")))
		if i < maxSubmoduleDepth {
			if path := strings.Repeat("down/", i+1) + "leaf.yaml"; err != nil || string(top.Files[path]) != "leaf" {
				t.Errorf("%d deep: %v", i+1, err)
			}
			continue
		}
		wantFailure(t, err, level.url, false, v1alpha1.ReasonSourceFailed, "repository URL holds submodules more than 4 deep")
	}
}

func TestTheCredentialOpensSubmodulesOfItsOwnHostOnly(t *testing.T) {
	s := newGitServer(t)
	lib := s.another("lib")
	commit := lib.push(map[string]string{"lib.yaml": "lib"})
	own, authority := tlsServer(t, s, basic("me", "S3NT1NEL"))
	foreign := func(r *http.Request) int {
		if r.Header.Get("Authorization") != "" {
			t.Error("another host was sent the credential")
		}
		return http.StatusUnauthorized
	}
	other, _ := tlsServer(t, s, foreign)
	v := &vault{}
	v.set("login", map[string]string{"username": "me", "password": "S3NT1NEL", "ca.crt": authority})
	s.push(map[string]string{"f": "one"})
	s.link("vendor", "../lib.git", commit)
	b, err := New(v, anywhere, Limits{}).Fetch(t.Context(), "team", withSubmodules(with(gitSource(own, "main", ""), "login")))
	if err != nil || string(b.Files["vendor/lib.yaml"]) != "lib" {
		t.Errorf("the same host: %v, %v", b, err)
	}
	plain := s.another("plain") // over http, where anybody may look, so that only the credential is at stake
	plain.link("vendor", "", commit)
	otherLib := strings.Replace(other, "app.git", "lib.git", 1)
	s.link("vendor", otherLib, commit)
	_, err = New(v, anywhere, Limits{}).Fetch(t.Context(), "team", withSubmodules(with(gitSource(own, "main", ""), "login")))
	wantFailure(t, err, otherLib, false, v1alpha1.ReasonSourceFailed, `submodule "vendor": repository URL has a certificate that is not trusted`)
	anonymous := strings.Replace(lib.url, "127.0.0.1", "localhost", 1)
	s.link("vendor", anonymous, commit)
	b, err = New(v, anywhere, Limits{}).Fetch(t.Context(), "team", withSubmodules(with(gitSource(own, "main", ""), "login")))
	if err != nil || string(b.Files["vendor/lib.yaml"]) != "lib" {
		t.Errorf("another host that anybody may read: %v, %v", b, err)
	}
}

func FuzzModules(f *testing.F) {
	f.Add([]byte("[submodule \"a\"]\n\tpath = a\n\turl = ../a.git\n"))
	f.Add([]byte("[submodule]\npath\n[a \"b"))
	f.Fuzz(func(_ *testing.T, content []byte) { _, _ = parseModules(content) })
}
