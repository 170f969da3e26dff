package connect

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	certutil "k8s.io/client-go/util/cert"
)

// maxKubeconfig bounds the bytes that are parsed at all.
const maxKubeconfig = 256 << 10

// parseKubeconfig decides every field of a kubeconfig. It opens no file, runs no program and reads no
// environment. Its errors are *failure.Error and hold names and field paths only, never values.
func parseKubeconfig(data []byte, o Options) (*endpoint, error) {
	doc, err := parseDocument(data)
	if err != nil {
		return nil, err
	}
	top, err := readConfig(doc, o)
	if err != nil {
		return nil, err
	}
	name := scalar(top["current-context"])
	if name == "" {
		return nil, broken("current-context is not set")
	}
	at, node, err := findEntry("contexts", "context", top["contexts"], name, "current-context names", o)
	if err != nil {
		return nil, err
	}
	context, err := readPayload(contextFields, at, node, o)
	if err != nil {
		return nil, err
	}
	return readContext(at, context, top, o)
}

// readContext builds the endpoint from the cluster and the user that a context names. A context without a
// user is anonymous; one that names a user which is not there is broken.
func readContext(at string, context, top map[string]*yaml.Node, o Options) (*endpoint, error) {
	cluster, user := scalar(context["cluster"]), scalar(context["user"])
	if cluster == "" {
		return nil, broken("%s.cluster is not set", at)
	}
	clusterAt, clusterNode, err := findEntry("clusters", "cluster", top["clusters"], cluster, at+".cluster names", o)
	if err != nil {
		return nil, err
	}
	e := &endpoint{}
	if err := e.readCluster(clusterAt, clusterNode, o); err != nil {
		return nil, err
	}
	if user == "" {
		return e, nil
	}
	userAt, userNode, err := findEntry("users", "user", top["users"], user, at+".user names", o)
	if err != nil {
		return nil, err
	}
	return e, e.readUser(userAt, userNode, o)
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// parseDocument parses bytes that hold exactly one YAML document without anchors. Anchors are refused
// because a few bytes of them can stand for gigabytes, and no kubeconfig needs them.
func parseDocument(data []byte) (*yaml.Node, error) {
	if len(data) > maxKubeconfig {
		return nil, broken("the kubeconfig is larger than %d KiB", maxKubeconfig>>10)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, broken("the kubeconfig is not UTF-8 text")
	}
	doc, err := onlyDocument(data)
	if err != nil {
		return nil, err
	}
	if anchored(doc) {
		return nil, unsupported("YAML anchors and aliases are not supported in a kubeconfig: write the values out")
	}
	if doc.Kind != yaml.MappingNode {
		return nil, broken("the kubeconfig is not a mapping")
	}
	return doc, nil
}

// onlyDocument is the root of the one document that is not empty: a separator at the end is harmless.
func onlyDocument(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var root *yaml.Node
	for {
		var doc yaml.Node
		err := decoder.Decode(&doc)
		switch {
		case errors.Is(err, io.EOF) && root == nil:
			return nil, broken("the kubeconfig is empty")
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, syntaxError(err)
		case len(doc.Content) != 1 || unset(doc.Content[0]):
			continue
		case root != nil:
			return nil, broken("the kubeconfig holds more than one document")
		}
		root = doc.Content[0]
	}
}

// syntaxError tells the line only: the parser's own text can quote the input.
func syntaxError(err error) error {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		return broken("the kubeconfig is not valid YAML (line %s)", m[1])
	}
	return broken("the kubeconfig is not valid YAML")
}

func anchored(n *yaml.Node) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		return true
	}
	return slices.ContainsFunc(n.Content, anchored)
}

// readConfig reads the document itself. One that has no field of a kubeconfig at all is not named field by
// field: it may be another kind of secret.
func readConfig(doc *yaml.Node, o Options) (map[string]*yaml.Node, error) {
	known := false
	for i := 0; i+1 < len(doc.Content); i += 2 {
		name, value := doc.Content[i].Value, doc.Content[i+1]
		if name == "kind" && value.Kind == yaml.ScalarNode && value.Value != "" && value.Value != "Config" {
			return nil, broken("kind is not Config")
		}
		_, ok := configFields[name]
		known = known || ok
	}
	if !known {
		return nil, broken("the content is not a kubeconfig")
	}
	top, err := configFields.read("", doc, o)
	if err != nil {
		return nil, err
	}
	if version := scalar(top["apiVersion"]); version != "" && version != "v1" {
		return nil, broken("apiVersion is not v1")
	}
	return top, nil
}

// findEntry finds the item called name in a list of the kubeconfig, and its path for messages. The content
// of other items is not looked at: they are not used. because starts the message when there is none.
func findEntry(listName, payload string, items *yaml.Node, name, because string, o Options) (string, *yaml.Node, error) {
	var found *yaml.Node
	seen := map[string]bool{}
	for i := 0; items != nil && i < len(items.Content); i++ {
		item := items.Content[i]
		itemName, err := entryName(listName+"["+strconv.Itoa(i)+"]", item)
		if err != nil {
			return "", nil, err
		}
		if seen[itemName] {
			return "", nil, broken("%s holds %s twice", listName, shown(itemName))
		}
		seen[itemName] = true
		if itemName == name {
			found = item
		}
	}
	if found == nil {
		return "", nil, broken("%s %s, which %s does not hold", because, shown(name), listName)
	}
	at := listName + "[" + shown(name) + "]"
	entry, err := entryFields(payload).read(at, found, o)
	if err != nil {
		return "", nil, err
	}
	return at + "." + payload, entry[payload], nil
}

// entryName is the name of a list item.
func entryName(at string, item *yaml.Node) (string, error) {
	if item.Kind != yaml.MappingNode {
		return "", broken("%s is not a mapping", at)
	}
	for i := 0; i+1 < len(item.Content); i += 2 {
		if item.Content[i].Value != "name" {
			continue
		}
		value := item.Content[i+1]
		return value.Value, textField.check(at+".name", value, Options{})
	}
	return "", broken("%s.name is not set", at)
}

// readPayload reads the mapping of an entry; an entry without one has no field set.
func readPayload(fs fields, at string, n *yaml.Node, o Options) (map[string]*yaml.Node, error) {
	if n == nil {
		return nil, nil
	}
	return fs.read(at, n, o)
}

func (e *endpoint) readCluster(at string, n *yaml.Node, o Options) error {
	cluster, err := readPayload(clusterFields, at, n, o)
	if err != nil {
		return err
	}
	e.server = scalar(cluster["server"])
	if err := checkServer(at+".server", e.server); err != nil {
		return err
	}
	e.serverName = scalar(cluster["tls-server-name"])
	e.disableCompression = cluster["disable-compression"] != nil
	e.insecure = cluster["insecure-skip-tls-verify"] != nil
	if proxy := scalar(cluster["proxy-url"]); proxy != "" {
		if e.proxy, err = parseProxy(at+".proxy-url", proxy); err != nil {
			return err
		}
	}
	ca, err := base64Field(at+".certificate-authority-data", cluster["certificate-authority-data"])
	if err != nil || ca == nil {
		return err
	}
	if e.insecure {
		return broken("%s sets both certificate-authority-data and insecure-skip-tls-verify: remove one", at)
	}
	if e.roots, err = certutil.NewPoolFromBytes(ca); err != nil {
		return broken("%s.certificate-authority-data holds no PEM certificate", at)
	}
	return nil
}

func parseProxy(at, proxy string) (*url.URL, error) {
	u, err := url.Parse(proxy)
	if err != nil || u.Hostname() == "" || !validPort(u.Port()) {
		return nil, broken("%s is not a URL", at)
	}
	switch u.Scheme {
	case "http", "https", "socks5":
		return u, nil
	}
	return nil, unsupported("%s has a scheme that is not supported: use http, https or socks5", at)
}

func (e *endpoint) readUser(at string, n *yaml.Node, o Options) error {
	user, err := readPayload(userFields, at, n, o)
	if err != nil {
		return err
	}
	if token := scalar(user["token"]); token != "" {
		if err := e.setToken(at+".token", token); err != nil {
			return err
		}
	}
	cert, err := base64Field(at+".client-certificate-data", user["client-certificate-data"])
	if err != nil {
		return err
	}
	key, err := base64Field(at+".client-key-data", user["client-key-data"])
	if err != nil {
		return err
	}
	switch {
	case cert == nil && key == nil:
		return nil
	case key == nil:
		return broken("%s.client-key-data is not set, but client-certificate-data is", at)
	case cert == nil:
		return broken("%s.client-certificate-data is not set, but client-key-data is", at)
	}
	return e.setCertificate(at+".client-certificate-data and client-key-data", cert, key)
}

// base64Field decodes a field, nil when it is not set.
func base64Field(at string, n *yaml.Node) ([]byte, error) {
	if n == nil {
		return nil, nil
	}
	out, err := base64.StdEncoding.DecodeString(n.Value)
	if err != nil {
		return nil, broken("%s is not base64", at)
	}
	return out, nil
}
