package env

import (
	"bytes"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi" //nolint:gosec // the flaw it warns of was mended in Go 1.6.3
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// maxPush bounds what one push may send; the server holds it in memory.
const maxPush = 256 << 20

// gitEnv keeps the user's and the machine's own git settings out, and names a committer.
var gitEnv = []string{
	"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
	"GIT_AUTHOR_NAME=convoy", "GIT_AUTHOR_EMAIL=convoy@localhost",
	"GIT_COMMITTER_NAME=convoy", "GIT_COMMITTER_EMAIL=convoy@localhost",
}

// GitServer serves git repositories over HTTP on loopback through git's own http-backend. It can hang, refuse
// connections, ask for a login, and be switched back, always on the same port. ServeTLS and ServeSSH serve the same
// repositories in other ways.
type GitServer struct {
	// URL is the server's base, http://127.0.0.1:<port>.
	URL string

	dir      string
	port     *port
	backend  http.Handler
	requests atomic.Int64

	mu       sync.Mutex
	server   *http.Server  // nil while refusing
	resume   chan struct{} // not nil while hanging; closed when that ends
	user     string
	password string
	looks    map[string]int // of git-upload-pack at references, by the path of the repository
	others   []io.Closer    // servers of the same repositories, which end with this one
}

// StartGitServer starts a git server that keeps its repositories in dir.
func StartGitServer(dir string) (*GitServer, error) {
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("git is needed: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("prepare the git server: %w", err)
	}
	reserved, err := reservePort()
	if err != nil {
		return nil, fmt.Errorf("prepare the git server: %w", err)
	}
	s := &GitServer{URL: "http://" + loopback(reserved.number), dir: dir, port: reserved, looks: map[string]int{}}
	s.backend = &cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Dir: dir,
		Env: append([]string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + dir}, gitEnv...),
	}
	if err := s.listen(); err != nil {
		releasePorts([]*port{reserved})
		return nil, err
	}
	return s, nil
}

// listen starts to accept connections. The caller holds mu or is alone.
func (s *GitServer) listen() error {
	listener, err := s.port.listen()
	if err != nil {
		return fmt.Errorf("start the git server: %w", err)
	}
	s.server = &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second}
	go func(server *http.Server) { _ = server.Serve(listener) }(s.server)
	return nil
}

func (s *GitServer) serve(w http.ResponseWriter, r *http.Request) {
	s.requests.Add(1)
	s.mu.Lock()
	resume, user, password := s.resume, s.user, s.password
	if path, ok := strings.CutSuffix(r.URL.Path, "/info/refs"); ok && r.URL.Query().Get("service") == "git-upload-pack" {
		s.looks[path]++
	}
	s.mu.Unlock()
	if resume != nil {
		select {
		case <-resume:
		case <-r.Context().Done():
			return
		}
	}
	if user != "" && !hasLogin(r, user, password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "login needed", http.StatusUnauthorized)
		return
	}
	if r.ContentLength < 0 { // CGI needs to know the length
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPush))
		if err != nil {
			http.Error(w, "cannot read the request", http.StatusBadRequest)
			return
		}
		r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	}
	s.backend.ServeHTTP(w, r)
}

func hasLogin(r *http.Request, user, password string) bool {
	u, p, ok := r.BasicAuth()
	return ok && subtle.ConstantTimeCompare([]byte(u+"\x00"+p), []byte(user+"\x00"+password)) == 1
}

// Requests is how many HTTP requests have arrived so far.
func (s *GitServer) Requests() int { return int(s.requests.Load()) }

// Looks is how many looks at the references of a repository have arrived over HTTP so far.
func (s *GitServer) Looks(r *Repository) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.looks[strings.TrimPrefix(r.URL, s.URL)]
}

// RequireLogin makes the server ask for a user and password; an empty user ends that.
func (s *GitServer) RequireLogin(user, password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.password = user, password
}

// Hang makes the server accept requests and answer none until Resume.
func (s *GitServer) Hang() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resume == nil {
		s.resume = make(chan struct{})
	}
}

// Refuse cuts all connections and refuses new ones until Resume.
func (s *GitServer) Refuse() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.close()
}

// Resume ends Hang and Refuse: requests that hang are answered, and connections are accepted again.
func (s *GitServer) Resume() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unhang()
	if s.server != nil {
		return nil
	}
	return s.listen()
}

// Close ends the server. Its repositories stay on disk.
func (s *GitServer) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unhang()
	err := errors.Join(s.close(), s.port.lock.Close())
	for _, other := range s.others {
		err = errors.Join(err, other.Close())
	}
	return err
}

// endWith makes another server of the repositories end with this one.
func (s *GitServer) endWith(other io.Closer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.others = append(s.others, other)
}

func (s *GitServer) unhang() {
	if s.resume != nil {
		close(s.resume)
		s.resume = nil
	}
}

func (s *GitServer) close() error {
	if s.server == nil {
		return nil
	}
	err := s.server.Close()
	s.server = nil
	return err
}

// Repository creates an empty repository with the default branch main.
func (s *GitServer) Repository(ctx context.Context, name string) (*Repository, error) {
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("repository name %q leads out of the server's folder", name)
	}
	bare := filepath.Join(s.dir, name+".git")
	work := filepath.Join(s.dir, "work", name)
	r := &Repository{URL: s.URL + "/" + name + ".git", work: work}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", bare},
		// As public hosts do: any commit can be asked for by its digest, and clones may be partial.
		{"-C", bare, "config", "uploadpack.allowReachableSHA1InWant", "true"},
		{"-C", bare, "config", "uploadpack.allowFilter", "true"},
		{"-C", bare, "config", "http.receivepack", "true"},
		{"init", "--quiet", "--initial-branch=main", work},
		{"-C", work, "remote", "add", "origin", bare},
	} {
		if _, err := git(ctx, s.dir, args...); err != nil {
			return nil, err
		}
	}
	return r, nil
}
