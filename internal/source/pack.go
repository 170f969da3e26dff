package source

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"
)

// perObject is what one object costs in memory besides its content, roughly.
const perObject = 256

// commit is the content of one commit in memory.
type commit struct {
	root  plumbing.Hash
	trees map[plumbing.Hash][]object.TreeEntry
	blobs map[plumbing.Hash][]byte
	// links are the folders that take the place of submodules, by the commits of those; nil when they are left empty.
	links map[plumbing.Hash]plumbing.Hash
	bytes int64
}

// readPack reads the pack of the commit with the hash. Objects are found by the hash of their content, so a
// server cannot pass one for another.
func readPack(pack io.ReadSeeker, hash plumbing.Hash, limit int64) (*commit, error) {
	if err := measurePack(pack, limit); err != nil {
		return nil, err
	}
	if _, err := pack.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	store := memory.NewStorage()
	if err := packfile.UpdateObjectStorage(store, pack); err != nil {
		return nil, err
	}
	head, err := object.GetCommit(store, hash)
	if _, known := store.Objects[hash]; err != nil && known {
		return nil, errNotCommit
	}
	if err != nil {
		return nil, fmt.Errorf("the pack does not hold the commit: %w", err)
	}
	c := &commit{root: head.TreeHash, trees: map[plumbing.Hash][]object.TreeEntry{}, blobs: map[plumbing.Hash][]byte{}}
	for queue := []plumbing.Hash{c.root}; len(queue) > 0; queue = queue[1:] {
		below, err := c.take(store, queue[0])
		if err != nil {
			return nil, err
		}
		queue = append(queue, below...)
	}
	return c, nil
}

// take copies a folder and its files from the objects of a pack, which may be those of other commits too, and gives the
// folders in it. What is missing is found when it is needed.
func (c *commit) take(store *memory.Storage, tree plumbing.Hash) (below []plumbing.Hash, err error) {
	o, ok := store.Trees[tree]
	if _, known := c.trees[tree]; known || !ok {
		return nil, nil
	}
	var t object.Tree
	if err := t.Decode(o); err != nil {
		return nil, err
	}
	c.trees[tree] = t.Entries
	c.bytes += o.Size() + perObject
	for _, e := range t.Entries {
		if e.Mode == filemode.Dir {
			below = append(below, e.Hash)
			continue
		}
		blob, ok := store.Blobs[e.Hash]
		if _, known := c.blobs[e.Hash]; known || !ok {
			continue
		}
		if c.blobs[e.Hash], err = contentOf(blob); err != nil {
			return nil, err
		}
		c.bytes += blob.Size() + perObject
	}
	return below, nil
}

func contentOf(o plumbing.EncodedObject) ([]byte, error) {
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	content := make([]byte, o.Size())
	_, err = io.ReadFull(r, content)
	return content, err
}

// measurePack adds up what the pack claims to hold, and checks the claims, before anything of it is kept: a
// small pack can inflate to any size.
func measurePack(pack io.Reader, limit int64) error {
	scanner := packfile.NewScanner(pack)
	_, count, err := scanner.Header()
	if err != nil {
		return err
	}
	total := int64(0)
	for range count {
		h, err := scanner.NextObjectHeader()
		if err != nil {
			return err
		}
		if total += h.Length + perObject; total > limit || total < 0 {
			return errRepositoryTooBig
		}
		if !h.Type.IsDelta() {
			if _, _, err := scanner.NextObject(io.Discard); err != nil {
				return err
			}
			continue
		}
		var head headWriter
		if _, _, err := scanner.NextObject(&head); err != nil {
			return err
		}
		if total += head.targetSize(); total > limit || total < 0 {
			return errRepositoryTooBig
		}
	}
	return nil
}

// headWriter keeps the first bytes of a delta: two numbers, the size of its base and the size of its result.
type headWriter struct{ bytes.Buffer }

func (w *headWriter) Write(p []byte) (int, error) {
	if room := 20 - w.Len(); room > 0 {
		w.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

func (w *headWriter) targetSize() int64 {
	size := int64(0)
	for range 2 {
		size = 0
		for shift := 0; shift < 63; shift += 7 {
			b, err := w.ReadByte()
			if err != nil {
				return 0 // too short to be a delta; the parser will say so
			}
			size |= int64(b&0x7f) << shift
			if b&0x80 == 0 {
				break
			}
		}
	}
	return size
}

// names are the entries of a folder in the order of their names.
func (c *commit) names(tree plumbing.Hash) ([]object.TreeEntry, error) {
	entries, ok := c.trees[tree]
	if !ok {
		return nil, fmt.Errorf("the pack lacks a folder")
	}
	byName := make(map[string]object.TreeEntry, len(entries))
	for _, e := range entries {
		byName[e.Name] = c.settled(e)
	}
	sorted := make([]object.TreeEntry, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		sorted = append(sorted, byName[name])
	}
	return sorted, nil
}

// entry finds a name in a folder.
func (c *commit) entry(tree plumbing.Hash, name string) (object.TreeEntry, bool) {
	for _, e := range c.trees[tree] {
		if e.Name == name {
			return c.settled(e), true
		}
	}
	return object.TreeEntry{}, false
}

// settled gives a submodule that was taken as the folder that takes its place, and everything else as it is.
func (c *commit) settled(e object.TreeEntry) object.TreeEntry {
	if root, ok := c.links[e.Hash]; ok && e.Mode == filemode.Submodule {
		e.Mode, e.Hash = filemode.Dir, root
	}
	return e
}
