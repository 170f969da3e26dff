package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/yaml"

	"kumodo.io/convoy/internal/delivery"
)

// The bounds of one document.
const (
	maxNesting = 500      // levels of maps and lists
	maxAliased = 10 << 20 // bytes, roughly, that aliases may add by being expanded
)

// document is one document of a file.
type document struct {
	index int // from 1
	value any // map[string]any, []any, or a scalar; nil when the document is empty
}

// parseError is a problem at a line of a file. It holds names and keys, never values.
type parseError struct {
	line int
	text string
}

func (e parseError) Error() string {
	if e.line == 0 {
		return e.text
	}
	return fmt.Sprintf("line %d: %s", e.line, e.text)
}

// parseYAML reads all documents of a file, strictly: a key that is set twice and a number that would be changed are
// errors. As for kubectl, plain yes, no, on and off are booleans.
func parseYAML(data []byte) (docs []document, err error) {
	defer func() {
		if p := recover(); p != nil { // the files are untrusted
			docs, err = nil, parseError{0, "it is not valid YAML"}
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for index := 1; ; index++ {
		var n yaml.Node
		err := dec.Decode(&n)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, syntaxError(err)
		}
		c := converter{kubectlBooleans: true}
		v, err := c.value(&n, 0)
		if err != nil {
			return nil, err
		}
		docs = append(docs, document{index, v})
	}
}

var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntaxError takes the line out of the parser's message. The rest of it names what was expected, not what
// the file holds.
func syntaxError(err error) error {
	m := syntaxLine.FindStringSubmatch(err.Error())
	if m == nil {
		return parseError{0, "it is not valid YAML"}
	}
	line, _ := strconv.Atoi(m[1])
	return parseError{line, "it is not valid YAML: " + delivery.Short(m[2])}
}

// converter turns nodes into what JSON can hold: map[string]any, []any, string, bool, int64, float64, nil.
type converter struct {
	kubectlBooleans bool
	inAlias         int
	aliased         int
}

func (c *converter) value(n *yaml.Node, depth int) (any, error) {
	if depth > maxNesting {
		return nil, parseError{n.Line, "it is nested too deeply"}
	}
	if c.inAlias > 0 {
		if c.aliased += 64 + len(n.Value); c.aliased > maxAliased {
			return nil, parseError{n.Line, "its aliases expand to too much"}
		}
	}
	switch n.Kind {
	case 0:
		return nil, nil
	case yaml.DocumentNode:
		if len(n.Content) == 0 {
			return nil, nil
		}
		return c.value(n.Content[0], depth)
	case yaml.AliasNode:
		c.inAlias++
		defer func() { c.inAlias-- }()
		return c.value(n.Alias, depth+1)
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := c.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	case yaml.MappingNode:
		return c.mapping(n, depth)
	}
	return c.scalar(n)
}

func (c *converter) mapping(n *yaml.Node, depth int) (any, error) {
	out := make(map[string]any, len(n.Content)/2)
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind == yaml.ScalarNode && k.ShortTag() == "!!merge" {
			merged = append(merged, v)
			continue
		}
		key, err := keyOf(k)
		if err != nil {
			return nil, err
		}
		if _, twice := out[key]; twice {
			return nil, parseError{k.Line, fmt.Sprintf("the key %q is set twice", delivery.Short(key))}
		}
		if out[key], err = c.value(v, depth+1); err != nil {
			return nil, err
		}
	}
	for _, m := range merged {
		if err := c.merge(out, m, depth+1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// merge adds what a merge key (<<) refers to, a map or a list of maps, where the map has no such key of its own.
func (c *converter) merge(out map[string]any, n *yaml.Node, depth int) error {
	v, err := c.value(n, depth)
	if err != nil {
		return err
	}
	sources, isList := v.([]any)
	if !isList {
		sources = []any{v}
	}
	for _, source := range sources {
		m, ok := source.(map[string]any)
		if !ok {
			return parseError{n.Line, "a merge key (<<) needs a map or a list of maps"}
		}
		for k, v := range m {
			if _, own := out[k]; !own {
				out[k] = v
			}
		}
	}
	return nil
}

func keyOf(n *yaml.Node) (string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.ScalarNode {
		return "", parseError{n.Line, "a key is not a text"}
	}
	switch n.ShortTag() {
	case "!!null":
		return "", parseError{n.Line, "a key is empty"}
	case "!!int":
		var i int64
		if n.Decode(&i) == nil {
			return strconv.FormatInt(i, 10), nil
		}
	}
	return n.Value, nil
}

// wholeNumber matches numbers that are meant as integers, however large.
var wholeNumber = regexp.MustCompile(`^[-+]?[0-9_]+$`)

func (c *converter) scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, nil
	case "!!bool":
		var b bool
		if n.Decode(&b) != nil {
			return nil, parseError{n.Line, "a value is not the boolean that it is tagged as"}
		}
		return b, nil
	case "!!int":
		var i int64
		if n.Decode(&i) != nil {
			return nil, parseError{n.Line, "a number is too large to be kept exactly; quote it if it is a text"}
		}
		return i, nil
	case "!!float":
		var f float64
		if wholeNumber.MatchString(n.Value) && n.Style&yaml.TaggedStyle == 0 {
			return nil, parseError{n.Line, "a number is too large to be kept exactly; quote it if it is a text"}
		}
		if n.Decode(&f) != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, parseError{n.Line, "a number cannot be written as JSON"}
		}
		return unsigned(f), nil
	case "!!str":
		plain := n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle|yaml.TaggedStyle) == 0
		if b, ok := kubectlBoolean(n.Value); ok && plain && c.kubectlBooleans {
			return b, nil
		}
		return n.Value, nil
	case "!!timestamp":
		return n.Value, nil
	}
	return nil, parseError{n.Line, fmt.Sprintf("the tag %q is not supported", delivery.Short(n.Tag))}
}

// unsigned takes the sign off a zero: read again, "-0" is the integer 0, and would have another digest.
func unsigned(f float64) float64 {
	if f == 0 {
		return 0
	}
	return f
}

func kubectlBoolean(s string) (value, ok bool) {
	if len(s) > 3 || (s != strings.ToLower(s) && s != strings.ToUpper(s) && s != "Yes" && s != "No" && s != "On" && s != "Off") {
		return false, false
	}
	switch strings.ToLower(s) {
	case "y", "yes", "on":
		return true, true
	case "n", "no", "off":
		return false, true
	}
	return false, false
}
