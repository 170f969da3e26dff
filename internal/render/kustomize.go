package render

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/openapi"
)

// kustomizeGroup begins the apiVersion of kustomize's own files.
const kustomizeGroup = "kustomize.config.k8s.io/"

// kustomizeLock lets one build run at a time: kustomize keeps the OpenAPI schema in variables of the process.
var kustomizeLock = make(chan struct{}, 1)

// kustomize builds the kustomization in the source's folder. Everything that it will read is checked first: its
// own loader would run git and fetch URLs, and takes the last of two equal keys.
func kustomize(ctx context.Context, in Input) ([]located, error) {
	tree, err := newTree(in.Path, in.Files)
	if err != nil {
		return nil, err
	}
	inspected, err := inspect(ctx, tree)
	if err != nil {
		return nil, err
	}
	select {
	case kustomizeLock <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-kustomizeLock }()
	built, err := build(tree, inspected.usesOpenAPI)
	if err != nil {
		return nil, err
	}
	var found []located
	for i, r := range built.Resources() {
		where := fmt.Sprintf("the kustomize build, object %d", i+1)
		var c converter
		v, err := c.value(r.YNode(), 0)
		if err != nil {
			return nil, invalid("%s: a value cannot be kept as JSON", where)
		}
		m, ok := v.(map[string]any)
		if !ok {
			return nil, invalid("%s: it is not an object", where)
		}
		if found, err = expand(found, m, where); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// build runs kustomize, which can panic on input.
func build(t *tree, resetSchema bool) (m resmap.ResMap, err error) {
	defer func() {
		if p := recover(); p != nil {
			openapi.ResetOpenAPI()
			m, err = nil, invalid("the kustomize build failed inside kustomize")
		}
	}()
	if resetSchema { // or the schema of this source would go on to shape the builds of others
		defer openapi.ResetOpenAPI()
	}
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
	files map[string][]byte // by absolute path
	dirs  map[string]bool   // absolute paths
}

func newTree(root string, files map[string][]byte) (*tree, error) {
	t := &tree{
		FileSystem: filesys.MakeFsInMemory(),
		root:       path.Join("/", root),
		files:      make(map[string][]byte, len(files)),
		dirs:       map[string]bool{"/": true},
	}
	up := strings.Count(t.root, "/")
	if t.root == "/" {
		up = 0
	}
	for name, content := range files {
		if strings.HasPrefix(name, strings.Repeat("../", up+1)) {
			return nil, fmt.Errorf("file %q is outside the repository: the source's path is missing or wrong", name)
		}
		abs := path.Join(t.root, name)
		t.files[abs] = content
		for dir := path.Dir(abs); !t.dirs[dir]; dir = path.Dir(dir) {
			t.dirs[dir] = true
		}
	}
	t.dirs[t.root] = true
	return t, nil
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
