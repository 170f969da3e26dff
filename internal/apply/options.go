package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

// The values of the annotation convoy.kumodo.io/ssa.
const (
	ssaMerge        = "Merge"
	ssaIfNotPresent = "IfNotPresent"
	ssaIgnore       = "Ignore"
)

const yes, no = "true", "false"

// options are what the annotations of an object in the source ask for.
type options struct {
	adopt        bool   // take it over from another tool
	recreate     string // true, false, or "" for what the sync policy says
	ifNotPresent bool   // create it, and leave it alone where it is
	ignore       bool   // neither write nor record it
}

// optionsOf reads the annotations of an object. A value that means nothing is a problem: it is a wish that was misspelt.
func optionsOf(o *unstructured.Unstructured) (opts options, problem string) {
	annotations := o.GetAnnotations()
	switch adopt := annotations[v1alpha1.AnnotationAdopt]; adopt {
	case yes:
		opts.adopt = true
	case no, "":
	default:
		return options{}, badValue(v1alpha1.AnnotationAdopt, adopt, "true or false")
	}
	switch recreate := annotations[v1alpha1.AnnotationRecreate]; recreate {
	case yes, no, "":
		opts.recreate = recreate
	default:
		return options{}, badValue(v1alpha1.AnnotationRecreate, recreate, "true or false")
	}
	switch ssa := annotations[v1alpha1.AnnotationSSA]; ssa {
	case ssaMerge, "":
	case ssaIfNotPresent:
		opts.ifNotPresent = true
	case ssaIgnore:
		opts.ignore = true
	default:
		return options{}, badValue(v1alpha1.AnnotationSSA, ssa, "Merge, IfNotPresent or Ignore")
	}
	return opts, ""
}

func badValue(annotation, value, want string) string {
	const shown = 40
	if len(value) > shown {
		value = value[:shown] + "..."
	}
	return fmt.Sprintf("its annotation %s is %q: make it %s", annotation, printable(value), want)
}

func isIgnored(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()[v1alpha1.AnnotationSSA] == ssaIgnore
}
