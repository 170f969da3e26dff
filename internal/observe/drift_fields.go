package observe

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// serversFields are fields of the object and of its metadata that nobody owns, whoever applies them.
var (
	serversFields   = map[string]bool{"apiVersion": true, "kind": true, "status": true}
	serversMetadata = map[string]bool{
		"name": true, "namespace": true, "uid": true, "resourceVersion": true, "generation": true, "creationTimestamp": true,
		"selfLink": true, "clusterName": true, "managedFields": true, "deletionTimestamp": true, "deletionGracePeriodSeconds": true,
	}
)

var nothing fieldpath.Set

// rival is what another manager owns at a place and below. A rival is known at a place only when it owns something there.
type rival struct {
	name string
	own  *fieldpath.Set // nil: it owns the place as a whole
}

// node is a place in the object, with what is known of it.
type node struct {
	own    *fieldpath.Set // what convoy owns below
	rivals []rival
	ignore [][]string // what is ignored below, from here
	// loose: the keys of the map at this place are no fields of a schema. See leaf.
	loose bool
}

// walker walks over what was applied, beside what is owned.
type walker struct {
	secret bool
	// builtIn: the object is of a kind whose fields are all in a schema.
	builtIn bool
	// first: to know whether to look closer is enough. The rivals are not read yet; others tells whether one may have parts
	// of a field of a name.
	first  bool
	others func(field string) bool
	closer bool
	// tolerated are managers whose fields are not looked at.
	tolerated []string
	path      []fieldpath.PathElement
	lost      []string
	rivals    []string
	unsure    bool
}

func newWalker(applied *unstructured.Unstructured) *walker {
	return &walker{
		secret: applied.GetAPIVersion() == "v1" && applied.GetKind() == "Secret", builtIn: scheme.Scheme.Recognizes(applied.GroupVersionKind()),
	}
}

// lookCloser ends the first walk: another has to know the rivals.
func (w *walker) lookCloser() { w.closer = true }

// fields walks over a map.
func (w *walker) fields(n node, m map[string]any) {
	if hidesAll(n.ignore) {
		return
	}
	var known bool
	if n.loose, known = isLoose(n.own); !known {
		n.loose = !w.builtIn // nothing tells whether a schema has them
	}
	for name, v := range m {
		if w.closer {
			return
		}
		if v == nil || w.isServers(name) {
			continue
		}
		ignore := n.ignore
		if w.secret && len(w.path) == 0 && name == "stringData" {
			if ignore = append(below(ignore, "data", false), below(ignore, name, false)...); !hidesAll(ignore) {
				w.stringData(v, ignore)
			}
		} else {
			ignore = below(ignore, name, false)
		}
		w.enter(n, fieldpath.PathElement{FieldName: &name}, v, ignore)
	}
}

func (w *walker) isServers(name string) bool {
	switch len(w.path) {
	case 0:
		return serversFields[name]
	case 1:
		return serversMetadata[name] && w.path[0].FieldName != nil && *w.path[0].FieldName == "metadata"
	}
	return false
}

// stringData: the server moves it to data, where nobody owns it, but leaves it in the entry of who applied it for ever.
// Whoever changes data then owns it, and goes on to own it when convoy has put it right.
func (w *walker) stringData(v any, ignore [][]string) {
	m, _ := v.(map[string]any)
	for name, v := range m {
		if v != nil && !hidesAll(below(ignore, name, false)) {
			w.unsure = true
		}
	}
}

// enter goes from a place to one below it.
func (w *walker) enter(n node, pe fieldpath.PathElement, v any, ignore [][]string) {
	if hidesAll(ignore) {
		return
	}
	w.path = append(w.path, pe)
	next := node{own: &nothing, ignore: ignore}
	member := n.own.Members.Has(pe)
	if own, found := n.own.Children.Get(pe); found && !own.Empty() {
		next.own = own
	}
	next.rivals = rivalsBelow(n.rivals, pe)
	next.loose = n.loose && pe.FieldName != nil
	w.judge(next, member, v)
	w.path = w.path[:len(w.path)-1]
}

func rivalsBelow(all []rival, pe fieldpath.PathElement) []rival {
	var out []rival
	for _, r := range all {
		if r.own == nil {
			out = append(out, r)
			continue
		}
		own, found := r.own.Children.Get(pe)
		switch {
		case found && !own.Empty():
			out = append(out, rival{name: r.name, own: own})
		case r.own.Members.Has(pe):
			out = append(out, rival{name: r.name})
		}
	}
	return out
}

// judge decides about a place. member tells that convoy owns the place itself.
func (w *walker) judge(n node, member bool, v any) {
	granular := n.own != &nothing
	switch v := v.(type) {
	case map[string]any:
		switch {
		case len(v) == 0:
			w.emptyMap(n, member || granular)
		case member && !granular:
			w.leaf(n, v)
		case !granular && slices.ContainsFunc(n.rivals, whole):
			w.lose(n, v) // it is atomic
		default:
			w.fields(n, v)
		}
	case []any:
		switch {
		case member && !granular:
		case len(v) == 0:
			// An empty list of items that are owned one by one is owned by nobody, and takes nothing from anybody.
			switch {
			case granular:
			case w.first && w.othersHave(w.path[len(w.path)-1]):
				w.lookCloser()
			case slices.ContainsFunc(n.rivals, whole):
				w.lose(n, v)
			}
		default:
			w.items(n, v)
		}
	default:
		if !member || granular {
			w.lose(n, v)
		}
	}
}

func whole(r rival) bool { return r.own == nil }

func partly(r rival) bool { return r.own != nil }

// emptyMap: a map that was applied empty stays as it is when somebody adds to it, although convoy may lose it.
func (w *walker) emptyMap(n node, owned bool) {
	switch {
	case owned || slices.ContainsFunc(n.rivals, partly):
	case w.first:
		w.lookCloser()
	case len(n.rivals) > 0:
		w.lose(n, nil)
	default:
		// Removed, or somebody added to it and took that away again.
		w.unsure = true
	}
}

// leaf is a map with fields of which convoy owns nothing but the map. Most likely it is atomic, and all of it is convoy's.
// But a map whose name is no field of a schema is owned besides its fields, and is left when they are gone; then who
// changed them owns them one by one.
func (w *walker) leaf(n node, m map[string]any) {
	switch {
	case w.first && w.othersHave(w.path[len(w.path)-1]):
		w.lookCloser()
	case slices.ContainsFunc(n.rivals, partly):
		w.fields(n, m)
	case n.loose:
		w.unsure = true
	}
}

func (w *walker) othersHave(pe fieldpath.PathElement) bool {
	return pe.FieldName == nil || w.others(*pe.FieldName)
}

// isLoose reports whether the keys of a map are no fields of a schema: then the maps below are owned besides their
// fields. It is not known when there are none.
func isLoose(own *fieldpath.Set) (loose, known bool) {
	own.Children.Iterate(func(pe fieldpath.PathElement) {
		if pe.FieldName == nil {
			return
		}
		if own.Members.Has(pe) {
			loose = loose || !known
		} else {
			loose = false
		}
		known = true
	})
	return loose, known
}

// lose notes the place as lost. v is what was applied there, when a part of it may be ignored.
func (w *walker) lose(n node, v any) {
	if left, cut := remains(v, n.ignore); cut {
		// Whether it was the part that is ignored that changed is not known: they are owned as one.
		w.unsure = w.unsure || left
		return
	}
	if w.first {
		w.lookCloser()
		return
	}
	if slices.ContainsFunc(n.rivals, func(r rival) bool { return slices.Contains(w.tolerated, r.name) }) {
		return
	}
	w.lost = append(w.lost, w.render())
	for _, r := range n.rivals {
		w.rivals = append(w.rivals, r.name)
	}
}

// items walks over a list that was not applied empty.
func (w *walker) items(n node, list []any) {
	if hidesAll(n.ignore) {
		return
	}
	ignore := below(n.ignore, "", true)
	known := elementsOf(n)
	switch {
	case len(known.keys) > 0:
		matched, unsure := known.match(n, list)
		w.unsure = w.unsure || unsure
		for i, pe := range matched {
			if list[i] != nil && !w.closer {
				w.enter(n, pe, list[i], ignore)
			}
		}
	case known.values || known.indices:
		for i, item := range list {
			if item == nil || w.closer {
				continue
			}
			pe := fieldpath.IndexElement(i)
			if known.values {
				pe = fieldpath.ValueElement(value.NewValueInterface(item))
			}
			w.enter(n, pe, item, ignore)
		}
	default:
		// Nobody owns a part of it, so how it would be owned is not known.
		w.lose(n, list)
	}
}
