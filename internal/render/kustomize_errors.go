package render

import (
	"regexp"
	"strings"
)

// kustomizeSays are messages of kustomize that name objects, fields and files only. kustomize quotes whole patches
// and objects in others, which may be Secrets.
var kustomizeSays = []*regexp.Regexp{
	regexp.MustCompile(`json: (unknown field "[^"]{1,80}")`),
	regexp.MustCompile(`json: (cannot unmarshal [a-z]+ into Go [a-zA-Z .0-9\[\]]{1,120})`),
	regexp.MustCompile(`(kustomization\.yaml is empty)`),
	regexp.MustCompile(`(Found multiple kustomization files)`),
	regexp.MustCompile(`(may not add resource with an already registered id: [^\s'"]{1,300})`),
	regexp.MustCompile(`(no matches for Id [^\s;'"]{1,300})`),
	regexp.MustCompile(`(no resource matches strategic merge patch "[^"\s]{1,300}")`),
	regexp.MustCompile(`(multiple matches for Id [^\s;'"]{1,300})`),
	regexp.MustCompile(`(cycle detected)`),
	regexp.MustCompile(`(security; file '[^'\s]{1,200}' is not in or below '[^'\s]{1,200}')`),
	regexp.MustCompile(`(expected kind (?:!= )?'[A-Za-z]{1,40}' for path '[^'\s]{1,200}')`),
	regexp.MustCompile(`(unable to find field "[^"\s]{1,200}" in replacement target)`),
	regexp.MustCompile(`(nothing selected by [^\s:{]{1,200})`),
	regexp.MustCompile(`(missing metadata\.name in object)`),
	regexp.MustCompile(`(unable to parse SM or JSON patch)`),
	regexp.MustCompile(`(external plugins disabled)`),
	regexp.MustCompile(`(unable to load builtin [^\s]{1,100})`),
	regexp.MustCompile(`(missing Resource metadata)`),
	regexp.MustCompile(`(kind should be Kustomization or Component)`),
	regexp.MustCompile(`(apiVersion for (?:Kustomization|Component) should be kustomize\.config\.k8s\.io/[a-z0-9]+)`),
}

// explainKustomize makes a message of an error of kustomize, out of what is known to hold no value.
func explainKustomize(err error) string {
	text := err.Error()
	for _, says := range kustomizeSays {
		if m := says.FindStringSubmatch(text); m != nil {
			return strings.Replace(m[1], "external plugins disabled", "it uses a plugin or a function, and only those that are built in are supported", 1)
		}
	}
	return "run \"kustomize build\" on the source's folder to see why; the reason may quote values and is not shown"
}
