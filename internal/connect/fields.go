package connect

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// verdict is what convoy does with a kubeconfig field that is set.
type verdict string

const (
	// honoured: used for every request to the target.
	honoured verdict = "honoured"
	// ignored: has no meaning for a connection; its content is not looked at.
	ignored verdict = "ignored"
	// refused: would change how to connect in a way that convoy does not do.
	refused verdict = "refused"
	// permitted: honoured when the operator allows it, else refused.
	permitted verdict = "refused unless permitted"
)

// shape is the YAML that a field must hold.
type shape int

const (
	anyShape shape = iota
	textShape
	flagShape
	listShape
	mappingShape
)

// field is one row of the allow-list.
type field struct {
	verdict verdict
	shape   shape
	// instead is the way out that the message of a refusal names.
	instead string
	// allowed says whether the operator permits the field.
	allowed func(Options) bool
}

// textField is a field that any mapping may have.
var textField = field{verdict: honoured, shape: textShape}

// fields is the allow-list of one mapping. A field that is not in it is refused by name.
type fields map[string]field

const inline = "put the content itself into "

// The allow-list. docs/kubeconfig.md shows the same rows to users.
var (
	configFields = fields{
		"apiVersion":      {verdict: honoured, shape: textShape},
		"kind":            {verdict: honoured, shape: textShape},
		"current-context": {verdict: honoured, shape: textShape},
		"clusters":        {verdict: honoured, shape: listShape},
		"contexts":        {verdict: honoured, shape: listShape},
		"users":           {verdict: honoured, shape: listShape},
		"preferences":     {verdict: ignored},
		"extensions":      {verdict: ignored},
	}
	contextFields = fields{
		"cluster":    {verdict: honoured, shape: textShape},
		"user":       {verdict: honoured, shape: textShape},
		"namespace":  {verdict: ignored},
		"extensions": {verdict: ignored},
	}
	clusterFields = fields{
		"server":                     {verdict: honoured, shape: textShape},
		"tls-server-name":            {verdict: honoured, shape: textShape},
		"certificate-authority-data": {verdict: honoured, shape: textShape},
		"disable-compression":        {verdict: honoured, shape: flagShape},
		"extensions":                 {verdict: ignored},
		"certificate-authority":      {verdict: refused, instead: inline + "certificate-authority-data"},
		"insecure-skip-tls-verify": {
			verdict: permitted, shape: flagShape, instead: "set certificate-authority-data",
			allowed: func(o Options) bool { return o.AllowInsecureSkipTLSVerify },
		},
		"proxy-url": {
			verdict: permitted, shape: textShape, instead: "name a server that convoy reaches directly",
			allowed: func(o Options) bool { return o.AllowProxyURL },
		},
	}
	userFields = fields{
		"token":                   {verdict: honoured, shape: textShape},
		"client-certificate-data": {verdict: honoured, shape: textShape},
		"client-key-data":         {verdict: honoured, shape: textShape},
		"extensions":              {verdict: ignored},
		"exec":                    {verdict: refused, instead: "use a token or a client certificate"},
		"auth-provider":           {verdict: refused, instead: "use a token or a client certificate"},
		"tokenFile":               {verdict: refused, instead: inline + "token"},
		"client-certificate":      {verdict: refused, instead: inline + "client-certificate-data"},
		"client-key":              {verdict: refused, instead: inline + "client-key-data"},
		"username":                {verdict: refused, instead: "use a token or a client certificate"},
		"password":                {verdict: refused, instead: "use a token or a client certificate"},
		"as":                      {verdict: refused, instead: "use the credentials of that user"},
		"as-uid":                  {verdict: refused, instead: "use the credentials of that user"},
		"as-groups":               {verdict: refused, instead: "use the credentials of that user"},
		"as-user-extra":           {verdict: refused, instead: "use the credentials of that user"},
	}
)

// entryFields is the allow-list of an item of clusters, contexts or users.
func entryFields(payload string) fields {
	return fields{"name": {verdict: honoured, shape: textShape}, payload: {verdict: honoured, shape: mappingShape}}
}

// read walks one mapping and returns the nodes of its honoured fields that are set. path names the mapping
// in messages; it is empty for the document itself.
func (fs fields) read(path string, n *yaml.Node, o Options) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, broken("%s is not a mapping", path)
	}
	out := make(map[string]*yaml.Node, len(n.Content)/2)
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Kind != yaml.ScalarNode {
			return nil, broken("%s has a key that is not text", orDocument(path))
		}
		name, value := n.Content[i].Value, n.Content[i+1]
		at := join(path, name)
		if seen[name] {
			return nil, broken("%s is set twice", at)
		}
		seen[name] = true
		rule, known := fs[name]
		if !known {
			return nil, unsupported("%s is not a kubeconfig field that convoy knows", at)
		}
		if rule.verdict == ignored || unset(value) {
			continue
		}
		if err := rule.check(at, value, o); err != nil {
			return nil, err
		}
		out[name] = value
	}
	return out, nil
}

// check refuses what the rule does not allow and what has another shape.
func (f field) check(at string, n *yaml.Node, o Options) error {
	if f.verdict == refused {
		return unsupported("%s is not supported: %s", at, f.instead)
	}
	if f.verdict == permitted && !f.allowed(o) {
		return unsupported("%s is not permitted by the operator of convoy: %s", at, f.instead)
	}
	switch f.shape {
	case textShape:
		// A date is text for every reader of kubeconfigs, although YAML gives it a type of its own.
		if n.Kind != yaml.ScalarNode || (n.ShortTag() != "!!str" && n.ShortTag() != "!!timestamp") {
			return broken("%s is not text: put it in quotes", at)
		}
	case flagShape:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			return broken("%s is neither true nor false", at)
		}
	case listShape:
		if n.Kind != yaml.SequenceNode {
			return broken("%s is not a list", at)
		}
	case mappingShape:
		if n.Kind != yaml.MappingNode {
			return broken("%s is not a mapping", at)
		}
	case anyShape:
	}
	return nil
}

// unset reports whether a value says the same as a field that is left out.
func unset(n *yaml.Node) bool {
	switch n.Kind {
	case yaml.SequenceNode:
		return len(n.Content) == 0
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			return true
		case "!!str":
			return n.Value == ""
		case "!!bool":
			return strings.EqualFold(n.Value, "false")
		}
	}
	return false
}

// scalar is the text of a field, empty when it is not set.
func scalar(n *yaml.Node) string {
	if n == nil {
		return ""
	}
	return n.Value
}

func join(path, name string) string {
	if path == "" {
		return shown(name)
	}
	return path + "." + shown(name)
}

func orDocument(path string) string {
	if path == "" {
		return "the kubeconfig"
	}
	return path
}

// maxShown bounds names of the kubeconfig in messages.
const maxShown = 63

// shown makes a name of untrusted bytes fit for a message: one line, bounded.
func shown(name string) string {
	if len(name) > maxShown {
		name = strings.ToValidUTF8(name[:maxShown], "") + "…"
	}
	if quoted := strconv.Quote(name); len(quoted) != len(name)+2 || strings.ContainsAny(name, "[] ") {
		return quoted
	}
	return name
}
