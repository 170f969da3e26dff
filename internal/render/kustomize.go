package render

import (
	"fmt"
	"io/fs"
	"path"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomizeGroup begins the apiVersion of kustomize's own files.
const kustomizeGroup = "kustomize.config.k8s.io/"

// kustomize gives the objects of the kustomization in the tree. Everything that will be read is checked first: kustomize's
// own loader would run git and fetch URLs, and takes the last of two equal keys. each is called for one object after the
// other. It is the whole work of a build process: kustomize keeps a schema in variables of the process, which a source can
// change for all that are built after it.
func kustomize(t *tree, each func(object any) error) error {
	if err := inspect(t); err != nil {
		return err
	}
	built, err := build(t)
	if err != nil {
		return err
	}
	for i, r := range built.Resources() {
		var c converter
		v, err := c.value(r.YNode(), 0)
		if err != nil {
			return invalid("%s: a value cannot be kept as JSON", builtObject(i))
		}
		if err := each(v); err != nil {
			return err
		}
	}
	return nil
}

// builtObject says in messages where an object comes from.
func builtObject(index int) string { return fmt.Sprintf("the kustomize build, object %d", index+1) }

// build runs kustomize, which can panic on input.
func build(t *tree) (m resmap.ResMap, err error) {
	defer func() {
		if p := recover(); p != nil {
			m, err = nil, invalid("the kustomize build failed inside kustomize")
		}
	}()
	m, err = krusty.MakeKustomizer(&krusty.Options{
		Reorder:          krusty.ReorderOptionNone,
		LoadRestrictions: types.LoadRestrictionsRootOnly,
		PluginConfig:     types.DisabledPluginConfig(),
	}).Run(t, t.root)
	if err != nil {
		return nil, invalid("the kustomize build failed: %s", explainKustomize(err))
	}
	return m, nil
}

// tree shows files to kustomize: a file system that is only read. Only CleanedAbs and ReadFile are used by a
// build; the embedded empty file system answers the rest.
type tree struct {
	filesys.FileSystem
	root  string            // the source's folder, absolute
	files map[string][]byte // by absolute path, clean
	dirs  map[string]bool   // absolute paths
}

func newTree(root string, files map[string][]byte) *tree {
	t := &tree{FileSystem: filesys.MakeFsInMemory(), root: root, files: files, dirs: map[string]bool{"/": true, root: true}}
	for name := range files {
		for dir := path.Dir(name); !t.dirs[dir]; dir = path.Dir(dir) {
			t.dirs[dir] = true
		}
	}
	for dir := path.Dir(root); !t.dirs[dir]; dir = path.Dir(dir) {
		t.dirs[dir] = true
	}
	return t
}

// CleanedAbs implements filesys.FileSystem.
func (t *tree) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	name = path.Join("/", name)
	if t.dirs[name] {
		return filesys.ConfirmedDir(name), "", nil
	}
	if _, ok := t.files[name]; ok {
		return filesys.ConfirmedDir(path.Dir(name)), path.Base(name), nil
	}
	return "", "", fs.ErrNotExist
}

// ReadFile implements filesys.FileSystem.
func (t *tree) ReadFile(name string) ([]byte, error) {
	content, ok := t.files[path.Join("/", name)]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return content, nil
}

// Exists implements filesys.FileSystem.
func (t *tree) Exists(name string) bool {
	_, _, err := t.CleanedAbs(name)
	return err == nil
}

// IsDir implements filesys.FileSystem.
func (t *tree) IsDir(name string) bool { return t.dirs[path.Join("/", name)] }
