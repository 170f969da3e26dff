package observe

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const (
	// maxPaths and maxRivals bound what a Drift names. Who reads it wants to know where to look, not all of it.
	maxPaths  = 5
	maxRivals = 3
)

// Drift is what became of what convoy applied to one object. The zero value is: nothing happened to it.
type Drift struct {
	// Paths are fields that are no longer convoy's, such as spec.template.spec.containers[name=web].image: sorted, at most
	// maxPaths of them. A key with a character that a path gives a meaning is in brackets. There are no values in it but the
	// keys of list items and the items of a set, and of a Secret not even these.
	Paths []string
	// Lost is how many there are in all.
	Lost int
	// Rivals are field managers that own one of these fields now, sorted, at most maxRivals of them. Nobody owns a field
	// that was removed.
	Rivals []string
	// Unsure: managedFields do not tell about a part of the object. Only a dry-run apply could.
	Unsure bool
}

// Ignore says which fields of an object are not looked at. The zero value ignores none.
type Ignore struct {
	// Pointers are JSON pointers (RFC 6901) into the object, such as /spec/replicas or /metadata/annotations/x~1y. All below
	// one is ignored with it. An index of a list, whichever it is, and * mean every item: managedFields know no positions.
	Pointers []string
	// Managers are other field managers. What one of them owns now is not looked at.
	Managers []string
}

// DriftOf compares what was applied to an object, marks and all, with what managedFields say its manager still owns. The
// server takes a field from its owner when somebody else gives it another value, and from all when somebody removes it;
// what somebody adds, what is defaulted and what is shared at the same value takes nothing from anybody. So a field that
// was applied and is owned no more has drifted, whoever did it, and nothing has to be read to know that.
//
// A field that was applied as null is no wish, and neither are the identity of the object and its status. A list or a map
// that was applied empty is lost only to a manager that owns it as a whole. What the server does not keep as it was
// applied (stringData of a Secret) and what may have moved (an entry of another version of the kind) is Unsure.
func DriftOf(applied *unstructured.Unstructured, managed []metav1.ManagedFieldsEntry, manager string, ignore Ignore) Drift {
	if applied == nil {
		return Drift{Unsure: true}
	}
	own, sameVersion, ok := owned(managed, manager, applied.GetAPIVersion())
	if !ok {
		return Drift{Unsure: true}
	}
	root := node{own: own, ignore: pointers(ignore.Pointers)}
	// Most changes are of the status. The entries of others are read only when something is lost.
	quick := newWalker(applied)
	quick.first, quick.others = true, func(field string) bool { return othersName(managed, manager, field) }
	quick.fields(root, applied.Object)
	if !quick.closer {
		return Drift{Unsure: quick.unsure}
	}
	if !sameVersion {
		return Drift{Unsure: true}
	}
	root.rivals = rivalsOf(managed, manager)
	full := newWalker(applied)
	full.tolerated = ignore.Managers
	full.fields(root, applied.Object)
	return full.drift()
}

// owned is all that a manager owns of an object but its subresources, whether all of it was written in a version, and
// whether it could be read.
func owned(managed []metav1.ManagedFieldsEntry, manager, apiVersion string) (own *fieldpath.Set, sameVersion, ok bool) {
	own, sameVersion = &fieldpath.Set{}, true
	for i := range managed {
		m := &managed[i]
		if m.Manager != manager || m.Subresource != "" {
			continue
		}
		set := read(m)
		if set == nil {
			return nil, false, false
		}
		sameVersion = sameVersion && m.APIVersion == apiVersion
		if own.Empty() {
			own = set
		} else {
			own = own.Union(set)
		}
	}
	return own, sameVersion, true
}

// rivalsOf are all other managers. One whose fields cannot be read is not known to own any. That they may own them in
// another version is no matter: they are only named.
func rivalsOf(managed []metav1.ManagedFieldsEntry, manager string) []rival {
	var out []rival
	for i := range managed {
		m := &managed[i]
		if m.Manager == manager {
			continue
		}
		if set := read(m); set != nil {
			out = append(out, rival{name: oneLine(m.Manager), own: set})
		}
	}
	return out
}

// othersName reports whether another manager may own parts of a field of this name, by a look at the text. One that is
// spelled otherwise in JSON is not looked for.
func othersName(managed []metav1.ManagedFieldsEntry, manager, field string) bool {
	name, err := json.Marshal("f:" + field)
	if err != nil || len(name) != len(field)+len(`"f:"`) {
		return true
	}
	return slices.ContainsFunc(managed, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager != manager && m.FieldsV1 != nil && strings.Contains(m.FieldsV1.GetRawString(), string(name))
	})
}

// read is nil when an entry has no fields, or none that can be understood. The server keeps no empty entries.
func read(m *metav1.ManagedFieldsEntry) *fieldpath.Set {
	if m.FieldsV1 == nil || m.FieldsType != "" && m.FieldsType != "FieldsV1" {
		return nil
	}
	set := &fieldpath.Set{}
	if err := set.FromJSON(m.FieldsV1.GetRawReader()); err != nil || set.Empty() {
		return nil
	}
	return set
}

// pointers splits JSON pointers. What is none points nowhere.
func pointers(texts []string) [][]string {
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	var out [][]string
	for _, text := range texts {
		if text == "" {
			return [][]string{{}} // the whole object
		}
		rest, found := strings.CutPrefix(text, "/")
		if !found {
			continue
		}
		parts := strings.Split(rest, "/")
		for i := range parts {
			parts[i] = unescape.Replace(parts[i])
		}
		out = append(out, parts)
	}
	return out
}

// drift is what a full walk found.
func (w *walker) drift() Drift {
	out := Drift{Lost: len(w.lost), Unsure: w.unsure}
	slices.Sort(w.lost)
	paths := slices.Compact(w.lost) // items of a set of a Secret look alike
	out.Paths = slices.Clone(paths[:min(len(paths), maxPaths)])
	slices.Sort(w.rivals)
	names := slices.Compact(w.rivals)
	out.Rivals = slices.Clone(names[:min(len(names), maxRivals)])
	return out
}
