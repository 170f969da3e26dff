package source

import (
	"context"
	"errors"
	"net/url"
	"path"
	"regexp"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// commitKey finds a commit in the cache, bundleKey a bundle made of one.
type (
	commitKey struct{ url, commit string }
	bundleKey struct{ url, branch, commit, path string }
)

// repository is a checked v1alpha1.GitSource. url holds nothing secret and may be shown.
type repository struct{ url, branch, path string }

func checkGit(src *v1alpha1.GitSource) (repository, error) {
	u, err := url.Parse(src.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return repository{}, failure.Terminal(v1alpha1.ReasonSourceFailed, nil, "spec.source.git.url is no http or https URL")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return repository{}, failure.Terminal(v1alpha1.ReasonSourceFailed, nil, "spec.source.git.url holds credentials, a query or a fragment, which are not supported; only scheme, host and path are")
	}
	dir := path.Clean("/" + src.Path)[1:]
	if strings.HasPrefix(src.Path, "/") || path.Join(".", src.Path) != path.Join(".", dir) {
		return repository{}, failure.Terminal(v1alpha1.ReasonSourceFailed, nil, "spec.source.git.path leaves the repository; it must be relative and without ..")
	}
	return repository{url: strings.TrimSuffix(u.String(), "/"), branch: src.Ref.Branch, path: dir}, nil
}

func (s *Sources) fetchGit(ctx context.Context, src *v1alpha1.GitSource) (*Bundle, error) {
	repo, err := checkGit(src)
	if err != nil {
		return nil, err
	}
	fetchCtx, cancel := context.WithTimeout(ctx, s.limits.FetchTimeout)
	defer cancel()
	// The branch can move between the look at the references and the fetch, and then the commit may be
	// refused; the second look sees where it went.
	b, err := s.newest(fetchCtx, repo)
	if errors.Is(err, errNotServed) {
		b, err = s.newest(fetchCtx, repo)
	}
	return b, s.explain(ctx, repo, err)
}

func (s *Sources) newest(ctx context.Context, repo repository) (*Bundle, error) {
	remote, err := s.list(ctx, repo.url)
	if err != nil {
		return nil, err
	}
	commit, ok := remote.refs.References[plumbing.NewBranchReferenceName(repo.branch).String()]
	if !ok {
		return nil, errNoBranch
	}
	return s.bundle(ctx, repo, commit, func() (*listing, error) { return remote, nil })
}

var gitRevision = regexp.MustCompile(`@sha1:([0-9a-f]{40})$`)

func (s *Sources) openGit(ctx context.Context, src *v1alpha1.GitSource, revision string) (*Bundle, error) {
	repo, err := checkGit(src)
	if err != nil {
		return nil, err
	}
	m := gitRevision.FindStringSubmatch(revision)
	if m == nil {
		return nil, failure.Terminal(v1alpha1.ReasonSourceFailed, nil, "%q is no revision of a git source", revision)
	}
	repo.branch = strings.TrimSuffix(revision, m[0])
	fetchCtx, cancel := context.WithTimeout(ctx, s.limits.FetchTimeout)
	defer cancel()
	connect := func() (*listing, error) { return s.list(fetchCtx, repo.url) }
	b, err := s.bundle(fetchCtx, repo, plumbing.NewHash(m[1]), connect)
	return b, s.explain(ctx, repo, err)
}

// list asks for the references of a repository.
func (s *Sources) list(ctx context.Context, url string) (*listing, error) {
	return join(ctx, s.flights, "refs "+url, func(ctx context.Context) (*listing, error) { return s.git.list(ctx, url) })
}

// bundle makes the bundle of a commit. connect is only called when neither the bundle nor the commit is cached.
func (s *Sources) bundle(ctx context.Context, repo repository, commit plumbing.Hash, connect func() (*listing, error)) (*Bundle, error) {
	key := bundleKey{repo.url, repo.branch, commit.String(), repo.path}
	if b, ok := cached[*Bundle](s.cache, key); ok {
		return b, nil
	}
	c, err := s.commit(ctx, repo.url, commit, connect)
	if err != nil {
		return nil, err
	}
	files, err := collect(c, repo.path, s.limits)
	if err != nil {
		return nil, err
	}
	b := &Bundle{
		Revision: repo.branch + "@sha1:" + commit.String(),
		Digest:   digestOf(files), Path: repo.path, Files: files,
	}
	s.cache.put(key, b, b.size())
	return b, nil
}

func (s *Sources) commit(ctx context.Context, url string, hash plumbing.Hash, connect func() (*listing, error)) (*commit, error) {
	key := commitKey{url, hash.String()}
	if c, ok := cached[*commit](s.cache, key); ok {
		return c, nil
	}
	remote, err := connect()
	if err != nil {
		return nil, err
	}
	return join(ctx, s.flights, "commit "+url+" "+hash.String(), func(ctx context.Context) (*commit, error) {
		c, err := s.git.fetch(ctx, remote, hash)
		if err != nil {
			return nil, err
		}
		s.cache.put(key, c, c.bytes)
		return c, nil
	})
}
