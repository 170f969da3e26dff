package source

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"kumodo.io/convoy/internal/failure"
)

// How many submodules one source may have, theirs included; how deep they may lie in one another; and how deep a folder
// may lie that holds one.
const (
	maxSubmodules     = 32
	maxSubmoduleDepth = 4
	maxTreeDepth      = 256
)

// submodulesFile says where the submodules of a repository come from.
const submodulesFile = ".gitmodules"

var (
	errManySubmodules = fmt.Errorf("holds more than %d submodules", maxSubmodules)
	errDeepSubmodules = fmt.Errorf("holds submodules more than %d deep", maxSubmoduleDepth)
	errDeepTree       = fmt.Errorf("has folders more than %d deep, in which submodules are not looked for", maxTreeDepth)
	errNoModules      = errors.New("has a " + submodulesFile + " that cannot be read")
)

// gitlink is where a repository has a submodule, and the commit of it.
type gitlink struct {
	path   string
	commit plumbing.Hash
}

// nested is a repository whose submodules are to be taken.
type nested struct {
	commit *commit
	remote remote
	path   string
	depth  int
}

// withSubmodules gives the commit with the content of its submodules, which is fetched like the commit itself: through the
// guard, within the limits and the time of one source.
func (s *Sources) withSubmodules(ctx context.Context, r remote, top *commit) (*commit, error) {
	whole := &commit{
		root: top.root, trees: maps.Clone(top.trees), blobs: maps.Clone(top.blobs), bytes: top.bytes,
		links: map[plumbing.Hash]plumbing.Hash{},
	}
	count := 0
	for queue := []nested{{commit: top, remote: r}}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		links, err := at.commit.gitlinks()
		if err != nil {
			return nil, err
		}
		if count += len(links); count > maxSubmodules {
			return nil, errManySubmodules
		}
		if len(links) > 0 && at.depth == maxSubmoduleDepth {
			return nil, errDeepSubmodules
		}
		for _, link := range links {
			if _, known := whole.links[link.commit]; known {
				continue
			}
			sub, err := s.submodule(ctx, at, link)
			if err != nil {
				return nil, err
			}
			if whole.bytes += sub.commit.bytes; whole.bytes > s.limits.MaxRepositoryBytes {
				return nil, errRepositoryTooBig
			}
			maps.Copy(whole.trees, sub.commit.trees)
			maps.Copy(whole.blobs, sub.commit.blobs)
			whole.links[link.commit] = sub.commit.root
			queue = append(queue, sub)
		}
	}
	return whole, nil
}

// submodule fetches one submodule of a repository.
func (s *Sources) submodule(ctx context.Context, in nested, link gitlink) (nested, error) {
	at := path.Join(in.path, link.path)
	urls, err := in.commit.submoduleURLs()
	if err != nil {
		return nested{}, err
	}
	text, ok := urls[link.path]
	if !ok {
		return nested{}, pathError{at, errNoModuleURL}
	}
	a, err := in.remote.address.resolve(text)
	if err != nil || a.scheme() == schemeFile && in.remote.address.scheme() != schemeFile {
		return nested{}, pathError{at, errModuleURL}
	}
	to := remote{address: a}
	if a.origin() == in.remote.address.origin() {
		to.cred = in.remote.cred
	}
	if a.scheme() == schemeSSH && to.cred.identity == nil {
		return nested{}, pathError{at, errModuleHost}
	}
	c, err := s.commit(ctx, to, link.commit, func(ctx context.Context) (*listing, error) { return s.list(ctx, to) })
	if err != nil {
		return nested{}, submoduleError{at, to, err}
	}
	return nested{c, to, at, in.depth + 1}, nil
}

// submoduleError is what went wrong with the repository of a submodule.
type submoduleError struct {
	path   string
	remote remote
	err    error
}

func (e submoduleError) Error() string { return fmt.Sprintf("submodule %q: %v", e.path, e.err) }
func (e submoduleError) Unwrap() error { return e.err }

// explainSubmodule tells of the submodule's own repository what explain tells of the source's.
func (s *Sources) explainSubmodule(ctx context.Context, e submoduleError) error {
	if errors.Is(e.err, errNotServed) {
		return notFound(e.err, "submodule %q: repository %s does not give the commit", e.path, e.remote.address)
	}
	f, ok := failure.As(s.explain(ctx, repository{remote: e.remote}, e.err))
	if !ok {
		return ctx.Err()
	}
	told := *f
	told.Message = fmt.Sprintf("submodule %q: %s", e.path, f.Message)
	return &told
}

// submoduleURLs reads where the submodules come from, by their paths. A link is not followed, as git does not.
func (c *commit) submoduleURLs() (map[string]string, error) {
	e, ok := c.entry(c.root, submodulesFile)
	if !ok || e.Mode != filemode.Regular && e.Mode != filemode.Executable && e.Mode != filemode.Deprecated {
		return nil, nil
	}
	modules, err := parseModules(c.blobs[e.Hash])
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, m := range modules.Submodules {
		if m.URL != "" {
			out[path.Clean(m.Path)] = m.URL
		}
	}
	return out, nil
}

func parseModules(content []byte) (m *config.Modules, err error) {
	defer func() {
		if recover() != nil { // the parser is not made for everything that a repository can hold
			m, err = nil, errNoModules
		}
	}()
	m = config.NewModules()
	if m.Unmarshal(content) != nil {
		return nil, errNoModules
	}
	return m, nil
}

// gitlinks finds the submodules of the commit, but not theirs.
func (c *commit) gitlinks() ([]gitlink, error) {
	holds := map[plumbing.Hash]bool{}
	if _, err := c.holdsLink(c.root, holds, 0); err != nil {
		return nil, err
	}
	return c.linksBelow(nil, c.root, "", holds, 0)
}

// holdsLink reports whether a folder holds a submodule at any depth. It remembers: a small commit can have more paths
// than anybody can walk, but not more folders.
func (c *commit) holdsLink(tree plumbing.Hash, holds map[plumbing.Hash]bool, depth int) (bool, error) {
	if known, ok := holds[tree]; ok {
		return known, nil
	}
	found := false
	for _, e := range c.trees[tree] {
		below := e.Mode == filemode.Submodule
		if e.Mode == filemode.Dir {
			if depth == maxTreeDepth {
				return false, errDeepTree
			}
			var err error
			if below, err = c.holdsLink(e.Hash, holds, depth+1); err != nil {
				return false, err
			}
		}
		found = found || below
	}
	holds[tree] = found
	return found, nil
}

func (c *commit) linksBelow(found []gitlink, tree plumbing.Hash, at string, holds map[plumbing.Hash]bool, depth int) ([]gitlink, error) {
	if !holds[tree] {
		return found, nil
	}
	if depth > maxTreeDepth {
		return nil, errDeepTree
	}
	entries, err := c.names(tree)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch e.Mode {
		case filemode.Submodule:
			if found = append(found, gitlink{path.Join(at, e.Name), e.Hash}); len(found) > maxSubmodules {
				return nil, errManySubmodules
			}
		case filemode.Dir:
			if found, err = c.linksBelow(found, e.Hash, path.Join(at, e.Name), holds, depth+1); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}
