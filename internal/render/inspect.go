package render

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"

	"kumodo.io/convoy/internal/delivery"
)

// inspection walks the kustomizations of a tree before kustomize does. It decides that kustomize will only read files
// of the tree, and that every YAML it will read is strict.
type inspection struct {
	tree    *tree
	checked map[string]bool // files whose YAML was checked
}

// kustomizationIn finds the kustomization in the folder of files.
func kustomizationIn(files map[string][]byte, dir string) (string, bool) {
	for _, name := range konfig.RecognizedKustomizationFileNames() {
		file := path.Join(dir, name)
		if _, ok := files[file]; ok {
			return file, true
		}
	}
	return "", false
}

func inspect(t *tree) error {
	i := &inspection{tree: t, checked: map[string]bool{}}
	seen := map[string]bool{t.root: true}
	for queue := []string{t.root}; len(queue) > 0; queue = queue[1:] {
		folders, err := i.folder(queue[0])
		if err != nil {
			return err
		}
		for _, f := range folders {
			if !seen[f] {
				seen[f] = true
				queue = append(queue, f)
			}
		}
	}
	return nil
}

// folder inspects the kustomization of one folder and returns the folders that it builds on.
func (i *inspection) folder(dir string) ([]string, error) {
	file, ok := kustomizationIn(i.tree.files, dir)
	if !ok {
		return nil, invalid("%s: it has no kustomization.yaml, and a kustomization refers to it", i.name(dir))
	}
	k, err := i.kustomization(file)
	if err != nil {
		return nil, err
	}
	v := &visit{inspection: i, file: file, dir: dir}
	v.unsupported(k)
	for n, e := range k.Resources {
		v.resource(field("resources", n), e, true)
	}
	for n, e := range k.Components {
		v.resource(field("components", n), e, true)
	}
	v.loads(k)
	v.plugins("generators", k.Generators)
	v.plugins("transformers", k.Transformers)
	v.plugins("validators", k.Validators)
	return v.folders, v.err
}

// kustomization reads a kustomization file as kustomize does, but strictly.
func (i *inspection) kustomization(file string) (*types.Kustomization, error) {
	content := i.tree.files[file]
	docs, err := parseYAML(content)
	if err != nil {
		return nil, invalid("%s: %v", i.name(file), err)
	}
	docs = slices.DeleteFunc(docs, func(d document) bool { return d.value == nil })
	if len(docs) > 1 {
		return nil, invalid("%s: it has more than one document", i.name(file))
	}
	for _, d := range docs {
		if key, twice := sameKey(d.value); twice { // kustomize ignores the case of keys
			return nil, invalid("%s: the key %q is set twice", i.name(file), key)
		}
	}
	var k types.Kustomization
	if err := k.Unmarshal(content); err != nil {
		return nil, invalid("%s: %s", i.name(file), explainKustomize(err))
	}
	k.FixKustomization()
	return &k, nil
}

func sameKey(v any) (string, bool) {
	m, _ := v.(map[string]any)
	seen := map[string]bool{}
	for _, k := range sortedKeys(m) {
		lower := strings.ToLower(k)
		if seen[lower] {
			return delivery.Short(k), true
		}
		seen[lower] = true
	}
	return "", false
}

// name is a path as messages show it: relative to the source's folder where it is below it.
func (i *inspection) name(abs string) string {
	if rel, ok := strings.CutPrefix(abs, strings.TrimSuffix(i.tree.root, "/")+"/"); ok {
		return rel
	}
	return strings.TrimPrefix(abs, "/")
}

func field(name string, index int) string { return fmt.Sprintf("%s[%d]", name, index) }

// visit inspects one kustomization; it stops at the first problem.
type visit struct {
	*inspection
	file    string
	dir     string
	folders []string
	err     error
}

func (v *visit) fail(field, format string, args ...any) {
	if v.err == nil {
		v.err = invalid("%s: %s %s", v.name(v.file), field, fmt.Sprintf(format, args...))
	}
}

func (v *visit) unsupported(k *types.Kustomization) {
	if len(k.HelmCharts) > 0 || k.HelmGlobals != nil {
		v.fail("helmCharts", "is not supported: kustomize would run helm")
	}
}

// remoteEntry matches what kustomize could take for a URL, a git repository or an scp-like address.
var remoteEntry = regexp.MustCompile(`(?i)[:?#]|^[^/]*@|^github\.com/`)

// resource checks an entry that is a file, or a folder where that is allowed. A remote entry is not shown: it
// may hold a token.
func (v *visit) resource(field, entry string, folders bool) {
	if remoteEntry.MatchString(entry) {
		v.fail(field, "is remote or could be taken for it, which is not allowed; copy what it refers to into the source")
		return
	}
	abs := path.Join(v.dir, entry)
	switch {
	case path.IsAbs(entry):
		v.fail(field, "is an absolute path; it must be relative to its kustomization")
	case v.tree.dirs[abs] && folders:
		v.folders = append(v.folders, abs)
	case v.tree.dirs[abs]:
		v.fail(field, "%q is a folder, and must be a file", delivery.Short(entry))
	default:
		v.yamlFile(field, entry)
	}
}

// local checks an entry that kustomize loads as a file, and reports whether it is one.
func (v *visit) local(field, entry string) bool {
	if remoteEntry.MatchString(entry) {
		v.fail(field, "is remote or could be taken for it, which is not allowed; copy what it refers to into the source")
		return false
	}
	_, isFile := v.tree.files[path.Join(v.dir, entry)]
	switch {
	case path.IsAbs(entry):
		v.fail(field, "is an absolute path; it must be relative to its kustomization")
	case !isFile:
		v.fail(field, "%q is not a file of the source", delivery.Short(entry))
	}
	return isFile && !path.IsAbs(entry)
}

// yamlFile checks a file that kustomize reads as YAML.
func (v *visit) yamlFile(field, entry string) {
	if !v.local(field, entry) {
		return
	}
	abs := path.Join(v.dir, entry)
	if v.checked[abs] {
		return
	}
	v.checked[abs] = true
	docs, err := parseYAML(v.tree.files[abs])
	if err != nil {
		v.fail(field, "%s: %v", v.name(abs), err)
		return
	}
	v.builtins(field, docs)
}

// yamlText checks YAML that is written into the kustomization.
func (v *visit) yamlText(field, text string) []document {
	docs, err := parseYAML([]byte(text))
	if p, ok := errors.AsType[parseError](err); ok {
		v.fail(field, "at its %v", p)
	}
	return docs
}
