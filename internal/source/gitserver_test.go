package source

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/failure"
)

// anywhere is a dialer that permits the servers of these tests.
var anywhere = dial.New(dial.Policy{AllowLoopback: true})

// gitServer serves one bare repository, app, with git's own server, and counts requests.
type gitServer struct {
	t       *testing.T
	root    string // of all repositories of the server
	handler http.Handler
	url     string
	bare    string
	work    string
	lists   atomic.Int32 // looks at the references
	packs   atomic.Int32 // fetched commits
}

func newGitServer(t *testing.T) *gitServer {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal("these tests need git")
	}
	root := t.TempDir()
	s := &gitServer{t: t, root: root}
	backend := &cgi.Handler{
		Path: git, Args: []string{"http-backend"},
		Env:    []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"},
		Stderr: discard{},
	}
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/info/refs"):
			s.lists.Add(1)
		case strings.HasSuffix(r.URL.Path, "/git-upload-pack"):
			s.packs.Add(1)
		}
		backend.ServeHTTP(w, r)
	})
	server := httptest.NewServer(s.handler)
	t.Cleanup(server.Close)
	s.create("app", server.URL)
	return s
}

// create makes the repository that the server is about.
func (s *gitServer) create(name, base string) {
	s.t.Helper()
	s.url, s.bare, s.work = base+"/"+name+".git", filepath.Join(s.root, name+".git"), filepath.Join(s.t.TempDir(), "work")
	s.run(s.root, "init", "-q", "--bare", "-b", "main", s.bare)
	s.run(s.root, "init", "-q", "-b", "main", s.work)
	s.git("remote", "add", "origin", s.bare)
}

// another makes another repository on the same server.
func (s *gitServer) another(name string) *gitServer {
	s.t.Helper()
	other := &gitServer{t: s.t, root: s.root, handler: s.handler}
	other.create(name, strings.TrimSuffix(s.url, "/"+filepath.Base(s.bare)))
	return other
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func (s *gitServer) run(dir string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@convoy.invalid", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@convoy.invalid")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// git runs git in the work tree.
func (s *gitServer) git(args ...string) string { s.t.Helper(); return s.run(s.work, args...) }

// write writes files into the work tree; content "->target" is a symbolic link.
func (s *gitServer) write(files map[string]string) {
	s.t.Helper()
	for name, content := range files {
		file := filepath.Join(s.work, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			s.t.Fatal(err)
		}
		var err error
		if target, isLink := strings.CutPrefix(content, "->"); isLink {
			err = os.Symlink(target, file)
		} else {
			err = os.WriteFile(file, []byte(content), 0o644)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// push commits the files on top of the branch that is checked out, pushes it and returns the commit.
func (s *gitServer) push(files map[string]string) string {
	s.t.Helper()
	s.write(files)
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "change", "--allow-empty")
	s.git("push", "-q", "-f", "origin", "HEAD")
	return s.git("rev-parse", "HEAD")
}

// rewrite replaces main by one commit without a parent, which holds the files of the work tree and the given ones.
func (s *gitServer) rewrite(files map[string]string) string {
	s.t.Helper()
	s.git("checkout", "-q", "--orphan", "unrelated")
	s.write(files)
	s.git("add", "-A")
	s.git("commit", "-q", "-m", "rewritten")
	s.git("branch", "-M", "main")
	s.git("push", "-q", "-f", "origin", "main")
	return s.git("rev-parse", "HEAD")
}

func (s *gitServer) source(path string) v1alpha1.Source { return gitSource(s.url, "main", path) }

func gitSource(url, branch, path string) v1alpha1.Source {
	return v1alpha1.Source{Git: &v1alpha1.GitSource{URL: url, Ref: v1alpha1.GitRef{Branch: branch}, Path: path}}
}

// texts are the files of a bundle as text.
func texts(b *Bundle) map[string]string {
	out := map[string]string{}
	for name, content := range b.Files {
		out[name] = string(content)
	}
	return out
}

// wantFailure checks class, reason and the whole message of an error, in which URL stands for the server's.
func wantFailure(t *testing.T, err error, url string, terminal bool, reason, message string) {
	t.Helper()
	f, ok := failure.As(err)
	if !ok {
		t.Fatalf("error %v is no failure", err)
	}
	got := f.Message
	if url != "" {
		got = strings.ReplaceAll(got, url, "URL")
	}
	if got != message || f.Reason != reason || f.Terminal != terminal {
		t.Errorf("failure is\n  %s, terminal %v: %s\nwant\n  %s, terminal %v: %s", f.Reason, f.Terminal, got, reason, terminal, message)
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("it never came true that %s", what)
		}
	}
}
