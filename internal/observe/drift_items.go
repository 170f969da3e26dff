package observe

import (
	"slices"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// elements are how the items of a list are owned, by whomever.
type elements struct {
	keys            []fieldpath.PathElement // sorted
	values, indices bool
}

func elementsOf(n node) elements {
	var out elements
	out.add(n.own)
	for _, r := range n.rivals {
		if r.own != nil {
			out.add(r.own)
		}
	}
	slices.SortFunc(out.keys, fieldpath.PathElement.Compare)
	out.keys = slices.CompactFunc(out.keys, fieldpath.PathElement.Equals)
	return out
}

func (e *elements) add(own *fieldpath.Set) {
	note := func(pe fieldpath.PathElement) {
		switch {
		case pe.Key != nil && len(*pe.Key) > 0:
			e.keys = append(e.keys, pe)
		case pe.Value != nil:
			e.values = true
		case pe.Index != nil:
			e.indices = true
		}
	}
	own.Members.Iterate(note)
	own.Children.Iterate(func(pe fieldpath.PathElement) {
		if !own.Members.Has(pe) {
			note(pe)
		}
	})
}

// match finds for each item of a list how it is owned, or would be if it were. An item has the key that all its key
// fields are in. The server defaults the ones that it has not, and what it made of them is known from the key only; so
// the items that leave nothing open choose first. unsure: an item could be either of two.
func (e *elements) match(n node, list []any) (out []fieldpath.PathElement, unsure bool) {
	out = make([]fieldpath.PathElement, len(list))
	taken := make([]bool, len(e.keys))
	names := keyNames(e.keys)
	var open []int
	for i, item := range list {
		m, isMap := item.(map[string]any)
		if !isMap {
			out[i] = fieldpath.IndexElement(i)
			continue
		}
		pe, at := e.exactly(m, names)
		if at < 0 {
			open = append(open, i)
		} else {
			taken[at] = true
		}
		out[i] = pe
		if pe.Key == nil {
			out[i] = fieldpath.IndexElement(i) // it has no key field at all
		}
	}
	for _, i := range open {
		m, _ := list[i].(map[string]any)
		at, tie := e.nearest(n, m, taken)
		unsure = unsure || tie
		if at >= 0 {
			out[i], taken[at] = e.keys[at], true
		}
	}
	return out, unsure
}

// keyNames are the names of the key fields of a list. There is one set of them, if the server is in its right mind.
func keyNames(keys []fieldpath.PathElement) [][]string {
	var out [][]string
	for _, pe := range keys {
		same := func(names []string) bool {
			return slices.EqualFunc(names, *pe.Key, func(name string, f value.Field) bool { return name == f.Name })
		}
		if slices.ContainsFunc(out, same) {
			continue
		}
		names := make([]string, len(*pe.Key))
		for i, f := range *pe.Key {
			names[i] = f.Name
		}
		out = append(out, names)
	}
	return out
}

// exactly finds the key that an item spells out, or how the item is called when there is none such, and -1.
func (e *elements) exactly(item map[string]any, names [][]string) (fieldpath.PathElement, int) {
	var called fieldpath.PathElement
	for _, set := range names {
		fields := make(value.FieldList, 0, len(set))
		for _, name := range set {
			if v := item[name]; v != nil {
				fields = append(fields, value.Field{Name: name, Value: value.NewValueInterface(v)})
			}
		}
		pe := fieldpath.PathElement{Key: &fields}
		if at, found := slices.BinarySearchFunc(e.keys, pe, fieldpath.PathElement.Compare); found {
			return e.keys[at], at
		}
		if called.Key == nil && len(fields) > 0 {
			called = pe
		}
	}
	return called, -1
}

// nearest finds the key that leaves the least of an item open: of those, rather one that convoy owns, then one with the
// only default that a built-in kind has for a key. -1: there is none.
func (e *elements) nearest(n node, item map[string]any, taken []bool) (best int, tie bool) {
	best = -1
	bestScore := 0
	for at, pe := range e.keys {
		if taken[at] {
			continue
		}
		missing, fits := 0, true
		usual := false
		for _, f := range *pe.Key {
			switch v := item[f.Name]; {
			case v == nil:
				missing++
				usual = usual || f.Name == "protocol" && f.Value.IsString() && f.Value.AsString() == "TCP"
			case !value.Equals(value.NewValueInterface(v), f.Value):
				fits = false
			}
		}
		if !fits || missing == 0 {
			continue // with nothing missing it would have been found
		}
		score := -4 * missing
		if owns(n.own, pe) {
			score += 2
		}
		if usual {
			score++
		}
		switch {
		case best < 0 || score > bestScore:
			best, bestScore, tie = at, score, false
		case score == bestScore:
			tie = true
		}
	}
	return best, tie
}

func owns(own *fieldpath.Set, pe fieldpath.PathElement) bool {
	if own.Members.Has(pe) {
		return true
	}
	_, found := own.Children.Get(pe)
	return found
}

// hidesAll reports whether a pointer ends here.
func hidesAll(ignore [][]string) bool {
	return slices.ContainsFunc(ignore, func(p []string) bool { return len(p) == 0 })
}

// below is what is ignored below a field, or below the items of a list.
func below(ignore [][]string, name string, item bool) [][]string {
	var out [][]string
	for _, p := range ignore {
		if len(p) > 0 && (item && anyItem(p[0]) || !item && p[0] == name) {
			out = append(out, p[1:])
		}
	}
	return out
}

func anyItem(part string) bool {
	return part == "*" || part != "" && strings.Trim(part, "0123456789") == ""
}

// remains tells whether something of a value is not ignored, and whether something is.
func remains(v any, ignore [][]string) (left, cut bool) {
	if hidesAll(ignore) {
		return false, true
	}
	if len(ignore) == 0 {
		return true, false
	}
	each := func(v any, ignore [][]string) {
		l, c := remains(v, ignore)
		left, cut = left || l, cut || c
	}
	switch v := v.(type) {
	case map[string]any:
		for name, v := range v {
			each(v, below(ignore, name, false))
		}
	case []any:
		for _, v := range v {
			each(v, below(ignore, "", true))
		}
	default:
		return true, false
	}
	return left || !cut, cut
}
