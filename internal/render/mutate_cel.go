package render

import (
	"maps"
	"regexp"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"kumodo.io/convoy/internal/failure"
)

// builtIn knows the schemas of the kinds that are built into Kubernetes. Reading them takes a moment, which a process
// without such mutations saves.
var builtIn = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(scheme.Scheme)
})

// deduced takes any object: maps are merged, and lists are replaced.
var deduced = managedfields.NewDeducedTypeConverter()

// converterOf is how objects of a kind are merged.
func converterOf(gvk schema.GroupVersionKind) (converter managedfields.TypeConverter, hasSchema bool) {
	if !scheme.Scheme.Recognizes(gvk) {
		return deduced, false
	}
	stub := &unstructured.Unstructured{}
	stub.SetGroupVersionKind(gvk)
	if _, err := builtIn().ObjectToTyped(stub); err != nil {
		return deduced, false
	}
	return builtIn(), true
}

// mergeConfiguration merges an apply configuration into an object, as a MutatingAdmissionPolicy does.
func mergeConfiguration(subject string, configuration map[string]any, o located, hidden bool) error {
	converter, hasSchema := converterOf(o.GroupVersionKind())
	wish := &unstructured.Unstructured{Object: maps.Clone(configuration)}
	wish.SetGroupVersionKind(o.GroupVersionKind())
	var changed map[string]any
	err := guarded(func() error {
		wanted, err := converter.ObjectToTyped(wish)
		if err != nil {
			return invalid("%s: the Object does not fit the kind%s", subject, unknownField(err, hidden))
		}
		if at := atomicIn(wanted); hasSchema && at != "" {
			return invalid("%s: %s can only be replaced as a whole, which an Object does not do; use JSONPatch", subject, at)
		}
		is, err := converter.ObjectToTyped(o.Unstructured, typed.AllowDuplicates)
		if err != nil {
			return invalid("%s: the object does not fit the kind, as Kubernetes %s has it%s", subject, schemaVersion, unknownField(err, hidden))
		}
		merged, err := is.Merge(wanted)
		if err != nil {
			return invalid("%s: the Object cannot be merged", subject)
		}
		changed, _ = merged.AsValue().Unstructured().(map[string]any)
		return nil
	})
	if _, known := failure.As(err); err != nil && !known { // a panic
		return invalid("%s: the Object cannot be merged", subject)
	}
	if err != nil {
		return err
	}
	return accept(subject, changed, o, hidden)
}

// schemaVersion is the version of Kubernetes whose schemas are built in.
const schemaVersion = "1.37"

// unknown is how the merge says that a field is not known; a path without keys of lists holds names of fields only.
var unknown = regexp.MustCompile(`(?m)(\.[A-Za-z0-9.\[\]]{1,200}): field not declared in schema`)

func unknownField(err error, hidden bool) string {
	if m := unknown.FindStringSubmatch(err.Error()); m != nil && !hidden {
		return ": it has no field " + m[1]
	}
	return ""
}

// atomicIn finds a list or map in a configuration that is only ever replaced as a whole.
func atomicIn(v *typed.TypedValue) string {
	return findAtomic(nil, v.Schema(), v.TypeRef(), v.AsValue())
}

func findAtomic(at []string, s *smdschema.Schema, ref smdschema.TypeRef, v value.Value) string {
	atom, ok := s.Resolve(ref)
	if !ok {
		return ""
	}
	found := ""
	switch {
	case v.IsMap() && atom.Map != nil:
		if atom.Map.ElementRelationship == smdschema.Atomic {
			return strings.Join(at, ".")
		}
		v.AsMap().Iterate(func(key string, field value.Value) bool {
			if known, ok := atom.Map.FindField(key); ok {
				found = findAtomic(append(at, key), s, known.Type, field)
			}
			return found == ""
		})
	case v.IsList() && atom.List != nil:
		if atom.List.ElementRelationship == smdschema.Atomic {
			return strings.Join(at, ".")
		}
		list := v.AsList()
		for i := 0; i < list.Length() && found == ""; i++ {
			found = findAtomic(at, s, atom.List.ElementType, list.At(i))
		}
	}
	return found
}
