package source

import (
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// kustomizationFiles are the names by which kustomize knows its files.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// overlays adds the folders beside dir that the kustomization of dir refers to, directly or through others: an
// overlay usually lives beside its base, not above it. Nothing is judged here; a reference that cannot be
// followed is left to the render, which knows how to complain about it.
func (w *walker) overlays(dir string) error {
	queue, seen := []string{"."}, map[string]bool{".": true}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, ref := range w.references(at) {
			to := path.Join(at, ref)
			if seen[to] || strings.Contains(ref, ":") || path.IsAbs(ref) {
				continue
			}
			seen[to] = true
			if err := w.outside(dir, to); err != nil {
				return err
			}
			queue = append(queue, to)
		}
	}
	return nil
}

// outside adds the folder to, relative to dir, if it is one beside dir.
func (w *walker) outside(dir, to string) error {
	inRepo := path.Join(dir, to)
	isAbove := inRepo == "." || strings.HasPrefix(dir+"/", inRepo+"/")
	if !strings.HasPrefix(to, "../") || strings.HasPrefix(inRepo, "..") || isAbove {
		return nil
	}
	key, err := filepath.Rel("/"+dir, "/"+inRepo)
	if err != nil {
		return err
	}
	if n, err := w.commit.resolve("", inRepo); err == nil && n.isDir() {
		return w.folder(n, key, 0)
	}
	return nil
}

// references are the resources of the kustomization in the folder, if there is one.
func (w *walker) references(dir string) []string {
	for _, name := range kustomizationFiles {
		content, ok := w.files[path.Join(dir, name)]
		if !ok {
			continue
		}
		var k struct {
			Resources  []string `json:"resources"`
			Bases      []string `json:"bases"`
			Components []string `json:"components"`
		}
		if yaml.Unmarshal(content, &k) != nil {
			return nil
		}
		return append(append(k.Resources, k.Bases...), k.Components...)
	}
	return nil
}
