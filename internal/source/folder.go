package source

import (
	"errors"
	"io/fs"
	"os"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"kumodo.io/convoy/api/v1alpha1"
)

var errLeavesSource = errors.New("leaves the source: it is absolute, or has a .. that climbs out")

// FromFolder makes a bundle of a folder on this machine, which stands for the repository, artifact, chart or ConfigMap that
// src names. Nothing outside the folder is read; links and limits are as in a repository. Its revision is its digest.
func FromFolder(dir string, src v1alpha1.Source, l Limits) (*Bundle, error) {
	l = l.withDefaults()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	f := newFiles(l.MaxRepositoryBytes)
	err = fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == ".git":
			return fs.SkipDir
		case entry.IsDir():
			return nil
		case entry.Type()&fs.ModeSymlink != 0:
			target, err := root.Readlink(name)
			if err != nil {
				return err
			}
			return f.add(name, file{filemode.Symlink, []byte(target)})
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		return f.add(name, file{filemode.Regular, content})
	})
	if err != nil {
		return nil, err
	}
	tree, err := f.tree()
	if err != nil {
		return nil, err
	}
	named := ""
	switch {
	case src.Git != nil:
		named = src.Git.Path
	case src.OCI != nil:
		named = src.OCI.Path
	}
	folder, ok := folderOf(named)
	if !ok {
		return nil, pathError{named, errLeavesSource}
	}
	collected, err := collect(tree, folder, l)
	if err != nil {
		return nil, err
	}
	digest := digestOf(collected)
	return &Bundle{Revision: digest, Digest: digest, Path: folder, Files: collected}, nil
}
