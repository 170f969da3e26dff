package source

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestFetchTakesTheFilesBelowThePath(t *testing.T) {
	s := newGitServer(t)
	commit := s.push(map[string]string{"apps/a.yaml": "a", "apps/sub/b.yaml": "b", "other.yaml": "o", "apps/empty.yaml": ""})
	b, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.source("./apps/"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "main@sha1:" + commit; b.Revision != want {
		t.Errorf("revision %q, want %q", b.Revision, want)
	}
	if diff := cmp.Diff(map[string]string{"a.yaml": "a", "sub/b.yaml": "b", "empty.yaml": ""}, texts(b)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if b.Path != "apps" {
		t.Errorf("path %q", b.Path)
	}
	whole, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.source(""))
	if err != nil || len(whole.Files) != 4 {
		t.Errorf("the whole repository: %v, %v", whole, err)
	}
}

func TestFetchOfACachedRevisionCostsOneLookAtTheReferences(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"a/x.yaml": "1", "b/x.yaml": "2"})
	sources := New(nil, anywhere, Limits{})
	for _, path := range []string{"a", "a", "b"} {
		if _, err := sources.Fetch(t.Context(), "team", s.source(path)); err != nil {
			t.Fatal(err)
		}
	}
	if lists, packs := s.lists.Load(), s.packs.Load(); lists != 3 || packs != 1 {
		t.Errorf("%d looks and %d fetches, want 3 and 1", lists, packs)
	}
}

func TestFetchFollowsTheBranch(t *testing.T) {
	s := newGitServer(t)
	sources := New(nil, anywhere, Limits{})
	fetch := func(branch string) (*Bundle, error) {
		return sources.Fetch(t.Context(), "team", gitSource(s.url, branch, ""))
	}
	expect := func(commit, content string) {
		t.Helper()
		b, err := fetch("main")
		if err != nil {
			t.Fatal(err)
		}
		if b.Revision != "main@sha1:"+commit || string(b.Files["f"]) != content {
			t.Errorf("got %s with %q, want %s with %q", b.Revision, b.Files["f"], commit, content)
		}
	}
	expect(s.push(map[string]string{"f": "one"}), "one")
	expect(s.push(map[string]string{"f": "two"}), "two")

	expect(s.rewrite(map[string]string{"f": "rewritten"}), "rewritten")

	s.git("branch", "-m", "main", "trunk")
	s.git("push", "-q", "origin", "trunk")
	s.run(s.bare, "update-ref", "-d", "refs/heads/main")
	_, err := fetch("main")
	wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceNotFound, "repository URL has no branch main; what was delivered stays")
	if b, err := fetch("trunk"); err != nil || string(b.Files["f"]) != "rewritten" {
		t.Errorf("renamed branch: %v, %v", b, err)
	}
}

func TestFetchNamesWhatDoesNotExist(t *testing.T) {
	s := newGitServer(t)
	_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.source(""))
	wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceNotFound, "repository URL has no branch main; what was delivered stays")

	s.push(map[string]string{"apps/a.yaml": "a"})
	for path, message := range map[string]string{
		"app":         "repository URL, branch main: the path app does not exist",
		"apps/a.yaml": "repository URL, branch main: the path apps/a.yaml is a file, not a folder",
	} {
		_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.source(path))
		wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceNotFound, message)
	}
	missing := s.url + "-missing"
	_, err = New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", gitSource(missing, "main", ""))
	wantFailure(t, err, missing, false, v1alpha1.ReasonSourceNotFound, "repository URL does not exist")
}

func TestFetchRefusesWhatCanNeverWork(t *testing.T) {
	const url, path = "spec.source.git.url", "spec.source.git.path leaves the repository; it must be relative and without .."
	for name, tc := range map[string]struct {
		source  v1alpha1.Source
		message string
	}{
		"nothing":        {v1alpha1.Source{}, "spec.source names none of git, oci, helm and configMap"},
		"a token":        {gitSource("https://S3NT1NEL@127.0.0.1/x", "main", ""), url + " holds credentials, a query or a fragment, which are not supported; only scheme, host and path are, and the user of ssh"},
		"a query":        {gitSource("https://127.0.0.1/x?private_token=S3NT1NEL", "main", ""), url + " holds credentials, a query or a fragment, which are not supported; only scheme, host and path are, and the user of ssh"},
		"a file":         {gitSource("file:///etc", "main", ""), url + " is a file URL, which convoy reads only when its operator permits it with --allow-file-sources"},
		"another scheme": {gitSource("ftp://127.0.0.1/x", "main", ""), url + " is no https, http, ssh or file URL of a repository, nor user@host:path"},
		"no URL":         {gitSource("http://%zz", "main", ""), url + " is no https, http, ssh or file URL of a repository, nor user@host:path"},
		"a password":     {gitSource("ssh://git:S3NT1NEL@127.0.0.1/x", "main", ""), url + " holds credentials, a query or a fragment, which are not supported; only scheme, host and path are, and the user of ssh"},
		"ssh, no Secret": {gitSource("git@127.0.0.1:x", "main", ""), url + " is for ssh, which needs a Secret with identity and known_hosts; name it in spec.source.git.secretRef"},
		"a path upwards": {gitSource("http://127.0.0.1/x", "main", "a/../../b"), path},
		"dots that stay": {gitSource("http://127.0.0.1/x", "main", "../x"), path},
		"absolute path":  {gitSource("http://127.0.0.1/x", "main", "/etc"), path},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", tc.source)
			wantFailure(t, err, "", true, v1alpha1.ReasonSourceFailed, tc.message)
		})
	}
}

func TestFetchFollowsLinksThatStayInTheRepository(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{
		"shared/base.yaml": "base", "shared/more/m.yaml": "m", "apps/local.yaml": "local",
		"apps/file.yaml": "->../shared/base.yaml", "apps/dir": "->../shared", "apps/twice.yaml": "->file.yaml",
		"apps/through.yaml": "->dir/more/m.yaml", "apps/inside.yaml": "->../apps/./local.yaml", "current": "->apps",
	})
	want := map[string]string{
		"local.yaml": "local", "file.yaml": "base", "dir/base.yaml": "base", "dir/more/m.yaml": "m",
		"twice.yaml": "base", "through.yaml": "m", "inside.yaml": "local",
	}
	for _, path := range []string{"apps", "current"} {
		b, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.source(path))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, texts(b)); diff != "" {
			t.Errorf("files of %s (-want +got):\n%s", path, diff)
		}
	}
}

func TestFetchRefusesEntriesThatCannotBeTaken(t *testing.T) {
	for name, tc := range map[string]struct{ target, message string }{
		"a link to a file of the machine":    {"->/etc/passwd", "is a symbolic link that leaves the repository"},
		"a link out of the repository":       {"->../../../etc/passwd", "is a symbolic link that leaves the repository"},
		"a link to nothing":                  {"->nothing", "is a symbolic link to something that does not exist"},
		"a link to itself":                   {"->link", "is a symbolic link that leads back to itself"},
		"a link out that would come back":    {"->../../apps/ok.yaml", "is a symbolic link that leaves the repository"},
		"a link below a file, not a path":    {"->ok.yaml/x", "is a symbolic link to something that does not exist"},
		"a link to the folder that it is in": {"->.", "is a symbolic link that leads back to itself"},
		"a link to a folder above":           {"->..", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newGitServer(t)
			s.push(map[string]string{"apps/ok.yaml": "ok", "apps/link": tc.target})
			_, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.source("apps"))
			if tc.message == "" { // the folder above holds the one that is being read
				wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceFailed, `repository URL, branch main: "link/apps" is a symbolic link that leads back to itself`)
				return
			}
			wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceFailed, `repository URL, branch main: "link" `+tc.message)
		})
	}
}

func TestFetchOfAnOverlayTakesTheFoldersThatItBuildsOn(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{
		"overlays/prod/kustomization.yaml":    "resources: [../../base, ../common, local]\ncomponents: [../../components/tls]",
		"overlays/prod/local/Kustomization":   "resources: [x.yaml]",
		"overlays/prod/local/x.yaml":          "x",
		"overlays/common/kustomization.yml":   "resources: [../../base/sub, ../prod/local, ../../../leaves, ../..]",
		"base/kustomization.yaml":             "resources: [d.yaml, https://127.0.0.1:1/x]",
		"base/d.yaml":                         "d",
		"base/sub/kustomization.yaml":         "resources: []",
		"components/tls/kustomization.yaml":   "kind: Component",
		"components/other/kustomization.yaml": "kind: Component",
		"overlays/dev/kustomization.yaml":     "resources: [../../base]",
	})
	b, err := New(nil, anywhere, Limits{}).Fetch(t.Context(), "team", s.source("overlays/prod"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"../../base/d.yaml", "../../base/kustomization.yaml", "../../base/sub/kustomization.yaml",
		"../../components/tls/kustomization.yaml", "../common/kustomization.yml",
		"kustomization.yaml", "local/Kustomization", "local/x.yaml",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(b.Files))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestOpenReturnsExactlyTheRevision(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "one"})
	sources := New(nil, anywhere, Limits{})
	first, err := sources.Fetch(t.Context(), "team", s.source(""))
	if err != nil {
		t.Fatal(err)
	}
	open := func(s2 *Sources) (*Bundle, error) {
		return s2.Open(t.Context(), "team", s.source(""), first.Revision)
	}
	if b, err := open(New(nil, anywhere, Limits{})); err != nil || b.Digest != first.Digest || b.Revision != first.Revision {
		t.Errorf("another worker, same tip: %v, %v", b, err)
	}
	s.push(map[string]string{"f": "two"})
	lists := s.lists.Load()
	if b, err := open(sources); err != nil || b != first || s.lists.Load() != lists {
		t.Errorf("from the cache: %v, %v", b, err)
	}
	if b, err := open(New(nil, anywhere, Limits{})); err != nil || b.Digest != first.Digest {
		t.Errorf("another worker, older commit: %v, %v", b, err)
	}
	s.rewrite(map[string]string{"f": "rewritten"})
	_, err = open(New(nil, anywhere, Limits{}))
	wantFailure(t, err, s.url, false, v1alpha1.ReasonSourceNotFound, "repository URL moved on: the commit is no longer served")
	_, err = sources.Open(t.Context(), "team", s.source(""), "main")
	wantFailure(t, err, s.url, true, v1alpha1.ReasonSourceFailed, `"main" is no revision of a git source`)
}

func TestEqualFetchesAtTheSameTimeAreOne(t *testing.T) {
	s := newGitServer(t)
	s.push(map[string]string{"f": "one"})
	sources := New(nil, anywhere, Limits{})
	errs := make(chan error)
	for range 20 {
		go func() {
			_, err := sources.Fetch(t.Context(), "team", s.source(""))
			errs <- err
		}()
	}
	for range 20 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if packs := s.packs.Load(); packs != 1 {
		t.Errorf("%d fetches, want 1", packs)
	}
}

func TestACallerThatGivesUpDoesNotEndTheFetchOfAnother(t *testing.T) {
	f := newFlights(Limits{}.withDefaults().FetchTimeout)
	release := make(chan struct{})
	ended := make(chan error, 1)
	work := func(ctx context.Context) (any, error) {
		select {
		case <-release:
			return "done", nil
		case <-ctx.Done():
			ended <- ctx.Err()
			return nil, ctx.Err()
		}
	}
	waiting := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		if fl := f.running["k"]; fl != nil {
			return fl.waiting
		}
		return 0
	}
	type result struct {
		value any
		err   error
	}
	start := func(ctx context.Context) chan result {
		c := make(chan result, 1)
		go func() { v, err := f.do(ctx, "k", work); c <- result{v, err} }()
		return c
	}
	impatient, giveUp := context.WithCancel(t.Context())
	first := start(impatient)
	eventually(t, "the first waits", func() bool { return waiting() == 1 })
	second := start(t.Context())
	eventually(t, "both wait", func() bool { return waiting() == 2 })
	giveUp()
	if r := <-first; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the impatient one got %v", r)
	}
	close(release)
	if r := <-second; r.value != "done" || r.err != nil {
		t.Errorf("the patient one got %v", r)
	}

	release = make(chan struct{})
	alone, giveUp := context.WithCancel(t.Context())
	only := start(alone)
	eventually(t, "the only one waits", func() bool { return waiting() == 1 })
	giveUp()
	if r := <-only; !errors.Is(r.err, context.Canceled) {
		t.Errorf("the only one got %v", r)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the work that nobody waits for ended with %v", err)
	}
}
