package render

import (
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
)

// loads checks every field of a kustomization that names files.
func (v *visit) loads(k *types.Kustomization) {
	for n, e := range k.Configurations {
		v.yamlFile(field("configurations", n), e)
	}
	for n, e := range k.Crds {
		v.yamlFile(field("crds", n), e)
	}
	if file := k.OpenAPI["path"]; file != "" {
		v.yamlFile("openapi.path", file)
	}
	for n, p := range k.Patches {
		v.patch(field("patches", n), p)
	}
	for n, p := range k.PatchesJson6902 { //nolint:staticcheck // kustomize still reads it
		v.patch(field("patchesJson6902", n), p)
	}
	for n, p := range k.PatchesStrategicMerge { //nolint:staticcheck // kustomize still reads it
		v.fileOrText(field("patchesStrategicMerge", n), string(p))
	}
	for n, r := range k.Replacements {
		if r.Path != "" {
			v.yamlFile(field("replacements", n)+".path", r.Path)
		}
	}
	for n, g := range k.ConfigMapGenerator {
		v.sources(field("configMapGenerator", n), g.KvPairSources)
	}
	for n, g := range k.SecretGenerator {
		v.sources(field("secretGenerator", n), g.KvPairSources)
	}
}

func (v *visit) patch(field string, p types.Patch) {
	if p.Path != "" {
		v.yamlFile(field+".path", p.Path)
	}
	if p.Patch != "" {
		v.yamlText(field+".patch", p.Patch)
	}
}

// fileOrText checks an entry that kustomize takes as YAML if it is a map, and else as the name of a file.
func (v *visit) fileOrText(field, entry string) []document {
	if !strings.Contains(entry, "\n") && !strings.HasPrefix(strings.TrimSpace(entry), "{") {
		v.yamlFile(field, entry)
		return nil
	}
	docs := v.yamlText(field, entry)
	for _, d := range docs {
		if _, ok := d.value.(map[string]any); d.value != nil && !ok || remoteText.MatchString(entry) {
			v.fail(field, "is neither a file of the source nor YAML of an object")
		}
	}
	return docs
}

// remoteText matches text that kustomize would hand to git if it could not read it as an object.
var remoteText = regexp.MustCompile(`(?i)^(git::)?([a-z]+://|[a-z][a-z0-9-]*@|github\.com[/:])`)

// sources checks the files of a generator; what they hold is taken as it is.
func (v *visit) sources(name string, s types.KvPairSources) {
	for n, e := range s.FileSources {
		_, file, hasKey := strings.Cut(e, "=")
		if !hasKey {
			file = e
		}
		v.local(field(name+".files", n), file)
	}
	for n, e := range s.EnvSources {
		v.local(field(name+".envs", n), e)
	}
}

// plugins checks configuration of kustomize's built-in generators and transformers, the only ones that are allowed.
// A folder is not: a kustomization of its own could change the configuration after this check.
func (v *visit) plugins(name string, entries []string) {
	for n, e := range entries {
		docs := v.fileOrText(field(name, n), e)
		v.builtins(field(name, n), docs)
	}
}

// loadingKeys are the fields of built-in plugins that name files.
var loadingKeys = map[string]bool{"path": true, "paths": true, "files": true, "env": true, "envs": true, "targetfilepath": true}

// builtins refuses configuration of built-in plugins that would run helm or load what is remote.
func (v *visit) builtins(field string, docs []document) {
	for _, d := range docs {
		m, _ := d.value.(map[string]any)
		if m["apiVersion"] != "builtin" {
			continue
		}
		if kind, _ := m["kind"].(string); strings.HasPrefix(kind, "Helm") {
			v.fail(field, "is not supported: kustomize would run helm")
		}
		v.remoteValues(field, m, false)
	}
}

// remoteValue matches a URL that kustomize would fetch, also behind the key of a generator's file.
var remoteValue = regexp.MustCompile(`(?i)(^|=)https?:`)

func (v *visit) remoteValues(field string, value any, loads bool) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			v.remoteValues(field, value[key], loadingKeys[strings.ToLower(key)])
		}
	case []any:
		for _, item := range value {
			v.remoteValues(field, item, loads)
		}
	case string:
		if loads && remoteValue.MatchString(value) {
			v.fail(field, "refers to something remote, which is not allowed; copy it into the source")
		}
	}
}
