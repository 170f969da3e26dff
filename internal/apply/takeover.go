package apply

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
)

// stop is why convoy itself does not write an object. It is no error of the server.
type stop struct {
	reason   string
	message  string
	terminal bool
}

func (s *stop) Error() string { return s.message }

func conflict(format string, args ...any) *stop {
	return &stop{reason: v1alpha1.ReasonConflict, message: fmt.Sprintf(format, args...), terminal: true}
}

// with is the item with more metadata than the source has.
func (it *item) with(metadata map[string]any) *item {
	object := maps.Clone(it.object.Object)
	all, _ := object["metadata"].(map[string]any)
	all = maps.Clone(all)
	maps.Copy(all, metadata)
	object["metadata"] = all
	out := *it
	out.object = &unstructured.Unstructured{Object: object}
	return &out
}

// known makes a patch hold only for the object that convoy applied before.
func (it *item) known() *item { return it.with(map[string]any{"uid": it.uid}) }

// absent makes a patch hold only while there is no such object. No object has ever had this resourceVersion, and the
// server does not compare it when it creates one: so it refuses what is there already, without a look beforehand.
func (it *item) absent() *item { return it.with(map[string]any{"resourceVersion": "1"}) }

// pinned makes a patch hold for the state that was read only.
func (it *item) pinned(live *unstructured.Unstructured) *item {
	return it.with(map[string]any{"uid": string(live.GetUID()), "resourceVersion": live.GetResourceVersion()})
}

// isOtherObject tells that the object is not the one that the patch held for.
func isOtherObject(err error) bool {
	return apierrors.IsInvalid(err) && slices.ContainsFunc(causesOf(err), func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// takeOver applies an object that is not as the first patch took it to be: it is there, it is another, it is gone, or
// fields of it are somebody else's. It looks, decides whether convoy may have it, and patches what it saw. Whoever takes
// it in between is not overrun.
func (a *applier) takeOver(ctx context.Context, it *item, refused error) (*unstructured.Unstructured, error) {
	const tries = 3
	for range tries {
		live, err := a.get(ctx, it)
		switch {
		case isGone(err):
			live, err = a.patch(ctx, it.absent(), false)
		case err == nil:
			live, err = a.takeFrom(ctx, it, live, refused)
		}
		if err == nil || !apierrors.IsConflict(err) {
			return live, err
		}
		refused = err
	}
	return nil, refused
}

// takeFrom applies an item to an object that was read. refused is what the server said to the patch before.
func (a *applier) takeFrom(ctx context.Context, it *item, live *unstructured.Unstructured, refused error) (*unstructured.Unstructured, error) {
	if it.ifNotPresent {
		return live, nil
	}
	if err := a.mayTake(it, live); err != nil {
		return nil, err
	}
	if !isOwnershipConflict(refused) {
		out, err := a.patch(ctx, it.pinned(live), false)
		if !isOwnershipConflict(err) {
			return out, err
		}
		refused = err
	}
	if a.req.Conflicts == v1alpha1.ConflictFail {
		return nil, conflict("%s: remove them from the source, or set syncPolicy.conflicts: Force to take them over",
			a.clean.line(foreignFields(refused)))
	}
	return a.patch(ctx, it.pinned(live), true)
}

// mayTake is nil when convoy may write an object that is there.
func (a *applier) mayTake(it *item, live *unstructured.Unstructured) error {
	switch owner := live.GetLabels()[v1alpha1.LabelOwner]; {
	case owner == a.req.Owner.Key():
		return nil
	case owner != "":
		return conflict("it belongs to Release %s: remove it from one of the two", a.nameOwner(live))
	case it.implied:
		return conflict("somebody else made it")
	case it.adopt:
		return nil
	}
	if tool := toolOf(live); tool != "" {
		return conflict("it belongs to %s: remove it there, or set the annotation %s: \"true\" on it in the source to take it over",
			tool, v1alpha1.AnnotationAdopt)
	}
	return nil
}

// nameOwner is the Release that an object's marks name.
func (a *applier) nameOwner(live *unstructured.Unstructured) string {
	switch name := live.GetAnnotations()[v1alpha1.AnnotationRelease]; name {
	case "":
		return "of an unknown name"
	case a.req.Owner.String():
		return name + " of another hub (a hub that takes the place of another needs its identity, the annotation " +
			v1alpha1.AnnotationHubID + " of its namespace kube-system)"
	default:
		return oneLine(name)
	}
}

var (
	conflictManager = regexp.MustCompile(`^conflict with "((?:[^"\\]|\\.)*)"`)
	// setValue is the part of a path that is a value of a list, not the name of a field.
	setValue = regexp.MustCompile(`\[=.*$`)
)

// foreignFields names the managers that own fields of an object, and the fields, as the causes of a conflict do. Values
// are not among them.
func foreignFields(err error) string {
	const shown = 5
	all := 0
	var managers []string
	fields := map[string][]string{}
	for _, c := range causesOf(err) {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		if all++; all > shown {
			continue
		}
		manager := "another manager"
		if found := conflictManager.FindStringSubmatch(c.Message); found != nil {
			manager = `"` + printable(found[1]) + `"`
		}
		if fields[manager] == nil {
			managers = append(managers, manager)
		}
		fields[manager] = append(fields[manager], setValue.ReplaceAllString(c.Field, "[]"))
	}
	slices.Sort(managers)
	var parts []string
	for _, m := range managers {
		parts = append(parts, fmt.Sprintf("%s owns %s", m, strings.Join(fields[m], ", ")))
	}
	if more := all - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d fields more belong to others", more))
	}
	return strings.Join(parts, "; ")
}
