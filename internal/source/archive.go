package source

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

var (
	errNoArchive   = errors.New("holds an archive that cannot be read")
	errArchivePath = errors.New("is a path in an archive that leads out of it or names nothing")
	errArchiveKind = errors.New("is neither a file, a folder nor a link")
	errTwice       = errors.New("is in an archive twice")
	errFileFolder  = errors.New("is both a file and a folder")
	errLongPath    = fmt.Errorf("is the beginning of a path of more than %d bytes", maxPathBytes)
)

// maxPathBytes of a path in an archive, as on Linux. An archive may give a path a megabyte, which costs it next to nothing.
const maxPathBytes = 4096

// files are what archives hold: the content, or where a symbolic link leads, by clean path.
type files struct {
	entries map[string]file
	limit   int64
	bytes   int64
	read    int64 // of archives, uncompressed, with what is never kept
}

type file struct {
	mode    filemode.FileMode
	content []byte
}

func newFiles(limit int64) *files { return &files{entries: map[string]file{}, limit: limit} }

// add keeps a file, in place of one that came before it.
func (f *files) add(name string, entry file) error {
	if f.bytes += int64(len(entry.content)) + perObject; f.bytes > f.limit {
		return errRepositoryTooBig
	}
	f.entries[name] = entry
	return nil
}

// unpack adds what an archive holds, which may be compressed. Its files take the place of those that are there.
func (f *files) unpack(archive io.Reader) error {
	in := bufio.NewReader(archive)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return errNoArchive
		}
		in = bufio.NewReader(z)
	}
	// Of headers without a file the reader of archives takes as many as come: what comes out of them must end as well.
	bounded := &boundedBody{ReadCloser: io.NopCloser(in), left: f.limit - f.read}
	defer func() { f.read = f.limit - bounded.left }()
	seen := map[string]bool{}
	for r := tar.NewReader(bounded); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errRepositoryTooBig):
			return errRepositoryTooBig
		case err != nil:
			return errNoArchive
		}
		if f.bytes += perObject + int64(len(h.Name)); f.bytes > f.limit || h.Size > f.limit-f.bytes {
			return errRepositoryTooBig
		}
		if len(h.Name) > maxPathBytes {
			return pathError{shown(h.Name), errLongPath}
		}
		name, ok := insidePath(h.Name)
		switch {
		case h.Typeflag == tar.TypeXGlobalHeader, h.Typeflag == tar.TypeDir && path.Clean(h.Name) == ".":
			continue
		case !ok:
			return pathError{shown(h.Name), errArchivePath}
		case h.Typeflag == tar.TypeDir:
			continue
		case seen[name]:
			return pathError{name, errTwice}
		}
		seen[name] = true
		if err := f.take(name, h, r); err != nil {
			return err
		}
	}
}

// take adds one entry of an archive.
func (f *files) take(name string, h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		content, err := io.ReadAll(io.LimitReader(r, h.Size))
		switch {
		case errors.Is(err, errRepositoryTooBig):
			return errRepositoryTooBig
		case err != nil || int64(len(content)) != h.Size:
			return errNoArchive
		}
		return f.add(name, file{filemode.Regular, content})
	case tar.TypeSymlink:
		return f.add(name, file{filemode.Symlink, []byte(h.Linkname)})
	case tar.TypeLink: // to a file that came before it
		target, ok := insidePath(h.Linkname)
		if !ok {
			return pathError{name, errArchivePath}
		}
		linked, ok := f.entries[target]
		if !ok {
			return pathError{name, errDangling}
		}
		return f.add(name, linked)
	}
	return pathError{name, errArchiveKind}
}

// insidePath is a path within an archive, clean; false when it leads out of it, or to no file.
func insidePath(name string) (string, bool) {
	if strings.HasPrefix(name, "/") || strings.ContainsAny(name, "\x00\\") || slices.Contains(strings.Split(name, "/"), "..") {
		return "", false
	}
	name = path.Clean(name)
	return name, name != "."
}

// shown bounds a path of the far side in a message.
func shown(name string) string {
	const most = 200
	if len(name) > most {
		name = name[:most]
	}
	return strings.ToValidUTF8(name, "?")
}

// tree gives the files the shape of a commit, of which folders, links and limits are known already.
func (f *files) tree() (*commit, error) {
	c := &commit{trees: map[plumbing.Hash][]object.TreeEntry{}, blobs: map[plumbing.Hash][]byte{}, bytes: f.bytes}
	folders := map[string][]object.TreeEntry{"": nil}
	names := map[string]plumbing.Hash{"": number(0)}
	var grow func(dir string) error
	grow = func(dir string) error {
		if _, known := folders[dir]; known {
			return nil
		}
		if _, isFile := f.entries[dir]; isFile {
			return pathError{dir, errFileFolder}
		}
		above := parent(dir)
		if err := grow(above); err != nil {
			return err
		}
		if c.bytes += perObject; c.bytes > f.limit { // one path can make hundreds of folders
			return errRepositoryTooBig
		}
		names[dir] = number(len(names))
		folders[dir] = nil
		folders[above] = append(folders[above], object.TreeEntry{Name: path.Base(dir), Mode: filemode.Dir, Hash: names[dir]})
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(f.entries)) {
		entry := f.entries[name]
		if strings.Count(name, "/") > maxTreeDepth {
			return nil, errDeepArchive
		}
		dir := parent(name)
		if err := grow(dir); err != nil {
			return nil, err
		}
		hash := plumbing.ComputeHash(plumbing.BlobObject, entry.content)
		c.blobs[hash] = entry.content
		folders[dir] = append(folders[dir], object.TreeEntry{Name: path.Base(name), Mode: entry.mode, Hash: hash})
	}
	for dir, entries := range folders {
		c.trees[names[dir]] = entries
	}
	c.root = names[""]
	return c, nil
}

var errDeepArchive = errors.New("holds folders too deep in one another")

// number is a name for a folder that has no hash of its own.
func number(n int) (hash plumbing.Hash) {
	binary.BigEndian.PutUint64(hash[:], uint64(n)+1) //nolint:gosec // a count
	return hash
}

func parent(name string) string {
	if dir := path.Dir(name); dir != "." {
		return dir
	}
	return ""
}

// chartTree reads the archive of a chart. folder is the one at its top, in which the chart is.
func chartTree(archive io.Reader, limit int64) (c *commit, folder string, err error) {
	f := newFiles(limit)
	if err := f.unpack(archive); err != nil {
		return nil, "", err
	}
	for name := range f.entries {
		top, _, below := strings.Cut(name, "/")
		if !below || folder != "" && folder != top {
			return nil, "", errNoChart
		}
		folder = top
	}
	if _, ok := f.entries[folder+"/Chart.yaml"]; !ok {
		return nil, "", errNoChart
	}
	c, err = f.tree()
	return c, folder, err
}

var errNoChart = errors.New("holds no chart: that is one folder with a Chart.yaml in it")
