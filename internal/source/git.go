package source

import (
	"cmp"
	"context"
	"errors"
	"regexp"

	"github.com/go-git/go-git/v5/plumbing"

	"kumodo.io/convoy/api/v1alpha1"
)

// commitKey finds a commit in the cache, bundleKey a bundle made of one. remote is the key of a remote: what one
// credential fetched is not given to another.
type (
	commitKey struct{ remote, commit string }
	bundleKey struct {
		remote, revision, path string
		submodules             bool
	}
)

// remote is a repository as a credential opens it.
type remote struct {
	address address
	cred    credential
}

func (r remote) key() string { return r.cred.key + " " + r.address.String() }

// repository is a checked v1alpha1.GitSource.
type repository struct {
	remote
	ref        ref
	path       string
	submodules bool
}

func (s *Sources) checkGit(ctx context.Context, namespace string, src *v1alpha1.GitSource) (repository, error) {
	a, err := parseAddress(src.URL)
	if err != nil {
		return repository{}, invalidSource("spec.source.git.url %v", err)
	}
	if a.scheme() == schemeFile && !s.limits.AllowFile {
		return repository{}, invalidSource("spec.source.git.url is a file URL, which convoy reads only when its operator permits it with --allow-file-sources")
	}
	dir, ok := folderOf(src.Path)
	if !ok {
		return repository{}, invalidSource("spec.source.git.path leaves the repository; it must be relative and without ..")
	}
	r, err := checkRef(src.Ref)
	if err != nil {
		return repository{}, invalidSource("spec.source.git.ref %v", err)
	}
	cred, err := s.readCredential(ctx, namespace, src.SecretRef, a)
	if err != nil {
		return repository{}, err
	}
	return repository{remote{a, cred}, r, dir, src.Submodules}, nil
}

func (s *Sources) fetchGit(ctx context.Context, namespace string, src *v1alpha1.GitSource) (*Bundle, error) {
	fetchCtx, cancel := context.WithTimeout(ctx, s.limits.FetchTimeout)
	defer cancel()
	repo, err := s.checkGit(fetchCtx, namespace, src)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	// A branch can move between the look at the references and the fetch, and then the commit may be
	// refused; the second look sees where it went.
	b, err := s.newest(fetchCtx, repo)
	if errors.Is(err, errNotServed) && repo.ref.Commit == "" {
		b, err = s.newest(fetchCtx, repo)
	}
	return b, s.explain(ctx, repo, err)
}

func (s *Sources) lookGit(ctx context.Context, namespace string, src *v1alpha1.GitSource) (string, error) {
	lookCtx, cancel := context.WithTimeout(ctx, s.limits.FetchTimeout)
	defer cancel()
	repo, err := s.checkGit(lookCtx, namespace, src)
	if err != nil {
		return "", cmp.Or(ctx.Err(), err)
	}
	found, err := s.list(lookCtx, repo.remote)
	if err != nil {
		return "", s.explain(ctx, repo, err)
	}
	chosen, err := repo.ref.choose(found.refs)
	return chosen.revision(), s.explain(ctx, repo, err)
}

func (s *Sources) newest(ctx context.Context, repo repository) (*Bundle, error) {
	found, err := s.list(ctx, repo.remote)
	if err != nil {
		return nil, err
	}
	chosen, err := repo.ref.choose(found.refs)
	if err != nil {
		return nil, err
	}
	return s.bundle(ctx, repo, chosen, func(context.Context) (*listing, error) { return found, nil })
}

var gitRevision = regexp.MustCompile(`^(?:(.+)@)?sha1:([0-9a-f]{40})$`)

func (s *Sources) openGit(ctx context.Context, namespace string, src *v1alpha1.GitSource, revision string) (*Bundle, error) {
	fetchCtx, cancel := context.WithTimeout(ctx, s.limits.FetchTimeout)
	defer cancel()
	repo, err := s.checkGit(fetchCtx, namespace, src)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	m := gitRevision.FindStringSubmatch(revision)
	if m == nil {
		return nil, invalidSource("%q is no revision of a git source", revision)
	}
	connect := func(ctx context.Context) (*listing, error) { return s.list(ctx, repo.remote) }
	b, err := s.bundle(fetchCtx, repo, choice{m[1], plumbing.NewHash(m[2])}, connect)
	return b, s.explain(ctx, repo, err)
}

// list asks for the references of a repository.
func (s *Sources) list(ctx context.Context, r remote) (*listing, error) {
	return join(ctx, s.flights, "refs "+r.key(), func(ctx context.Context) (*listing, error) { return s.git.list(ctx, r) })
}

// bundle makes the bundle of a commit. connect is only called when neither the bundle nor the commit is cached.
func (s *Sources) bundle(ctx context.Context, repo repository, chosen choice, connect func(context.Context) (*listing, error)) (*Bundle, error) {
	key := bundleKey{repo.key(), chosen.revision(), repo.path, repo.submodules}
	if b, ok := cached[*Bundle](s.cache, key); ok {
		return b, nil
	}
	c, err := s.commit(ctx, repo.remote, chosen.commit, connect)
	if err != nil {
		return nil, err
	}
	if repo.submodules {
		if c, err = s.withSubmodules(ctx, repo.remote, c); err != nil {
			return nil, err
		}
	}
	files, err := collect(c, repo.path, s.limits)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Revision: chosen.revision(), Digest: digestOf(files), Path: repo.path, Files: files}
	s.cache.put(key, b, b.size())
	return b, nil
}

func (s *Sources) commit(ctx context.Context, r remote, hash plumbing.Hash, connect func(context.Context) (*listing, error)) (*commit, error) {
	key := commitKey{r.key(), hash.String()}
	if c, ok := cached[*commit](s.cache, key); ok {
		return c, nil
	}
	return join(ctx, s.flights, "commit "+r.key()+" "+hash.String(), func(ctx context.Context) (*commit, error) {
		if c, ok := cached[*commit](s.cache, key); ok { // by a flight that landed just now
			return c, nil
		}
		found, err := connect(ctx)
		if err != nil {
			return nil, err
		}
		c, err := found.fetch(ctx, hash)
		if err != nil {
			return nil, err
		}
		s.cache.put(key, c, c.bytes)
		return c, nil
	})
}
