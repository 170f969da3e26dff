package source

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	objectcache "github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// maxTagDepth is how many tags of tags are followed.
const maxTagDepth = 8

// local reads objects of a repository on this machine.
type local struct {
	store *filesystem.Storage
	limit int64
}

// listLocal gives the references of a repository on this machine as a server would list them.
func (g *gitClient) listLocal(ctx context.Context, path string) (*listing, error) {
	dir, err := gitFolder(path)
	if err != nil {
		return nil, err
	}
	// A new look each time: what is kept of a repository would hide how it changed.
	l := &local{filesystem.NewStorage(osfs.New(dir, osfs.WithBoundOS()), objectcache.NewObjectLRU(objectcache.MiByte)), g.limits.MaxRepositoryBytes}
	refs, err := l.references(ctx)
	if err != nil {
		return nil, err
	}
	return &listing{refs, l.commit}, nil
}

// gitFolder finds the folder that holds the objects: the path itself, or its .git.
func gitFolder(path string) (string, error) {
	for _, dir := range []string{filepath.Join(path, ".git"), path} {
		head, err := os.Lstat(filepath.Join(dir, "HEAD"))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return "", errors.Join(transport.ErrRepositoryNotFound, err)
		case head.Mode().IsRegular() || head.Mode()&fs.ModeSymlink != 0:
			return dir, nil
		}
	}
	return "", transport.ErrRepositoryNotFound
}

func (l *local) references(ctx context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	found, err := l.store.IterReferences()
	if err != nil {
		return nil, err
	}
	defer found.Close()
	err = found.ForEach(func(r *plumbing.Reference) error {
		name := r.Name().String()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case r.Type() == plumbing.SymbolicReference && r.Name() == plumbing.HEAD:
			return refs.Capabilities.Add(capability.SymRef, name+":"+r.Target().String())
		case r.Type() != plumbing.HashReference:
			return nil
		case r.Name() == plumbing.HEAD:
			hash := r.Hash()
			refs.Head = &hash
			return nil
		}
		refs.References[name] = r.Hash()
		if peeled := l.peel(r.Hash()); peeled != r.Hash() && strings.HasPrefix(name, "refs/") {
			refs.Peeled[name] = peeled
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if head, ok := refs.References[headTarget(refs)]; ok {
		refs.Head = &head
	}
	return refs, nil
}

// headTarget is the full name of what HEAD names.
func headTarget(refs *packp.AdvRefs) string {
	for _, link := range refs.Capabilities.Get(capability.SymRef) {
		if name, ok := strings.CutPrefix(link, "HEAD:"); ok {
			return name
		}
	}
	return ""
}

// peel follows annotated tags to what they name.
func (l *local) peel(hash plumbing.Hash) plumbing.Hash {
	for range maxTagDepth {
		tag, err := object.GetTag(l.store, hash)
		if err != nil {
			return hash
		}
		hash = tag.Target
	}
	return hash
}

// commit reads one commit and everything that it holds.
func (l *local) commit(ctx context.Context, hash plumbing.Hash) (*commit, error) {
	head, err := object.GetCommit(l.store, hash)
	if errors.Is(err, plumbing.ErrObjectNotFound) {
		if _, err := l.store.EncodedObject(plumbing.AnyObject, hash); err == nil {
			return nil, errNotCommit
		}
		return nil, errNotServed
	}
	if err != nil {
		return nil, err
	}
	c := &commit{root: head.TreeHash, trees: map[plumbing.Hash][]object.TreeEntry{}, blobs: map[plumbing.Hash][]byte{}}
	for queue := []plumbing.Hash{c.root}; len(queue) > 0; queue = queue[1:] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		below, err := l.tree(c, queue[0])
		if err != nil {
			return nil, err
		}
		queue = append(queue, below...)
	}
	return c, nil
}

// tree reads a folder and its files into c, and gives the folders in it.
func (l *local) tree(c *commit, hash plumbing.Hash) (below []plumbing.Hash, err error) {
	if _, known := c.trees[hash]; known {
		return nil, nil
	}
	o, err := l.object(c, plumbing.TreeObject, hash)
	if err != nil {
		return nil, err
	}
	var t object.Tree
	if err := t.Decode(o); err != nil {
		return nil, err
	}
	c.trees[hash] = t.Entries
	for _, e := range t.Entries {
		switch e.Mode {
		case filemode.Submodule:
			continue
		case filemode.Dir:
			below = append(below, e.Hash)
			continue
		}
		if _, known := c.blobs[e.Hash]; known {
			continue
		}
		blob, err := l.object(c, plumbing.BlobObject, e.Hash)
		if err != nil {
			return nil, err
		}
		if c.blobs[e.Hash], err = contentOf(blob); err != nil {
			return nil, err
		}
	}
	return below, nil
}

// object reads an object after its size was found to be within the limit.
func (l *local) object(c *commit, kind plumbing.ObjectType, hash plumbing.Hash) (plumbing.EncodedObject, error) {
	size, err := l.store.EncodedObjectSize(hash)
	if err != nil {
		return nil, err
	}
	if c.bytes += size + perObject; size < 0 || c.bytes > l.limit {
		return nil, errRepositoryTooBig
	}
	return l.store.EncodedObject(kind, hash)
}
