package source

import (
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// maxLinks is how many symbolic links one path may go through, as on Linux.
const maxLinks = 40

// folderOf is a path that a source names, without slashes at its ends; false when it is absolute or climbs out.
func folderOf(text string) (dir string, ok bool) {
	dir = path.Clean("/" + text)[1:]
	return dir, !strings.HasPrefix(text, "/") && path.Join(".", text) == path.Join(".", dir)
}

// node is a file or folder that a path leads to, after all links.
type node struct {
	path string // within the repository, without links
	mode filemode.FileMode
	hash plumbing.Hash
}

func (n node) isDir() bool { return n.mode == filemode.Dir }

// resolve follows a path from a folder of the repository. It never leaves the commit.
func (c *commit) resolve(from, target string) (node, error) {
	stack := []node{{path: "", mode: filemode.Dir, hash: c.root}}
	rest := strings.Split(path.Join(from), "/")
	if from == "" {
		rest = nil
	}
	rest = append(rest, strings.Split(target, "/")...)
	if strings.HasPrefix(target, "/") {
		return node{}, errLeavesTree
	}
	links := 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(stack) == 1 {
				return node{}, errLeavesTree
			}
			stack = stack[:len(stack)-1]
			continue
		}
		top := stack[len(stack)-1]
		e, ok := c.entry(top.hash, name)
		if !top.isDir() || !ok {
			return node{}, errNoPath
		}
		if e.Mode != filemode.Symlink {
			stack = append(stack, node{path: path.Join(top.path, name), mode: e.Mode, hash: e.Hash})
			continue
		}
		if links++; links > maxLinks {
			return node{}, errLinkLoop
		}
		link := string(c.blobs[e.Hash])
		if strings.HasPrefix(link, "/") {
			return node{}, errLeavesTree
		}
		rest = slices.Concat(strings.Split(link, "/"), rest)
	}
	return stack[len(stack)-1], nil
}

// walker collects files below folders, within the limits.
type walker struct {
	commit  *commit
	limits  Limits
	files   map[string][]byte
	bytes   int64
	entries int
	open    []string // real paths of the folders that are being walked
}

// collect takes the files below the folder dir of the commit, and those that it refers to as an overlay.
func collect(c *commit, dir string, l Limits) (map[string][]byte, error) {
	w := &walker{commit: c, limits: l, files: map[string][]byte{}}
	n, err := c.resolve("", dir)
	if err != nil {
		return nil, pathError{dir, err}
	}
	if n.mode == filemode.Submodule {
		return nil, pathError{dir, errSubmodule}
	}
	if !n.isDir() {
		return nil, pathError{dir, errNotFolder}
	}
	if err := w.folder(n, "", 0); err != nil {
		return nil, err
	}
	if err := w.overlays(dir); err != nil {
		return nil, err
	}
	return w.files, nil
}

// folder adds what is below a folder; key is where its files go.
func (w *walker) folder(n node, key string, depth int) error {
	if depth > w.limits.MaxDepth {
		return tooDeep(w.limits)
	}
	if slices.Contains(w.open, n.path) {
		return pathError{key, errLinkLoop}
	}
	w.open = append(w.open, n.path)
	defer func() { w.open = w.open[:len(w.open)-1] }()
	entries, err := w.commit.names(n.hash)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if w.entries++; w.entries > w.limits.MaxFiles {
			return tooMany(w.limits)
		}
		name := path.Join(key, e.Name)
		if !plainName(e.Name) {
			return pathError{name, errBadName}
		}
		child := node{path: path.Join(n.path, e.Name), mode: e.Mode, hash: e.Hash}
		if e.Mode == filemode.Symlink {
			if child, err = w.commit.resolve(n.path, string(w.commit.blobs[e.Hash])); err != nil {
				return pathError{name, linkError(err)}
			}
		}
		if err := w.add(child, name, depth); err != nil {
			return err
		}
	}
	return nil
}

// add takes one entry of a folder.
func (w *walker) add(n node, name string, depth int) error {
	switch n.mode {
	case filemode.Dir:
		return w.folder(n, name, depth+1)
	case filemode.Submodule:
		return nil // git, too, leaves its folder empty unless it is asked for
	case filemode.Regular, filemode.Executable, filemode.Deprecated:
	default:
		return pathError{name, errBadName}
	}
	content, ok := w.commit.blobs[n.hash]
	if !ok {
		return pathError{name, errBadName}
	}
	if _, known := w.files[name]; known {
		return nil
	}
	if w.bytes += int64(len(content)); w.bytes > w.limits.MaxBytes {
		return tooBig(w.limits)
	}
	w.files[name] = content
	return nil
}

// plainName reports whether a name of a tree is one path element; a tree made by hand can hold anything.
func plainName(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}
