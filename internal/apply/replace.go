package apply

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"kumodo.io/convoy/api/v1alpha1"
)

// replaceWait bounds the wait until an object that is to be replaced is gone; what takes longer is looked at again later.
const replaceWait = time.Minute

// immutable are the ways in which API servers say that a field cannot be changed once it is set. Each stands at the end
// of what is said about a field, where no value is quoted any more, or at its beginning.
var immutable = []*regexp.Regexp{
	regexp.MustCompile(`\bis immutable\.?$`),                            // most kinds, and by custom the rules of custom resources
	regexp.MustCompile("\\bis immutable when `immutable` is set$"),      // ConfigMap, Secret
	regexp.MustCompile(`^Forbidden: \S+ is immutable after creation\b`), // PersistentVolume, PersistentVolumeClaim
	regexp.MustCompile(`\bmay not (change|be changed) once set$`),       // Service
	regexp.MustCompile(`\bmay not be changed in an update\.$`),          // PriorityClass
	regexp.MustCompile(`\bcannot change roleRef$`),                      // RoleBinding, ClusterRoleBinding
	regexp.MustCompile(`^Forbidden: updates to \w+ are forbidden\.$`),   // StorageClass
	regexp.MustCompile(`^Forbidden: updates to statefulset spec for fields other than `),
	regexp.MustCompile(`^Forbidden: pod updates may not change fields other than `),
}

// isImmutable reports whether an object was refused for nothing but fields that cannot be changed: one that has another
// mistake as well would not be taken anew either.
func isImmutable(err error) bool {
	if !apierrors.IsInvalid(err) || len(causesOf(err)) == 0 {
		return false
	}
	return !slices.ContainsFunc(causesOf(err), func(c metav1.StatusCause) bool {
		return strings.HasPrefix(c.Field, "metadata.") ||
			!slices.ContainsFunc(immutable, func(r *regexp.Regexp) bool { return r.MatchString(c.Message) })
	})
}

// irreplaceable are kinds whose objects take what they hold along when they are deleted.
var irreplaceable = []schema.GroupKind{
	{Kind: "PersistentVolumeClaim"}, {Kind: "PersistentVolume"}, {Kind: "Namespace"}, definitionKind.GroupKind(),
}

// replace deletes an object that cannot be changed to the wish, waits until it is gone, and applies it anew, where
// that is asked for. refused is what the server said.
func (a *applier) replace(ctx context.Context, it *item, refused error) (*unstructured.Unstructured, error) {
	said := refusal(a.resolve.target, it.ref, refused, a.clean).Message
	if why := a.mayNotReplace(it); why != "" {
		return nil, &stop{v1alpha1.ReasonApplyFailed, said + "; " + why, true}
	}
	live, err := a.get(ctx, it)
	if isGone(err) {
		return a.patch(ctx, it.absent(), false)
	}
	if err != nil {
		return nil, err
	}
	if why := a.mayNotDelete(live); why != "" {
		return nil, &stop{v1alpha1.ReasonApplyFailed, said + "; " + why, true}
	}
	if live.GetDeletionTimestamp() == nil {
		if err := a.rehearse(ctx, it); err != nil {
			return nil, err
		}
		err := deleteObject(ctx, a.resolve.client(it.mapping, it.ref.Namespace), it.ref.Name, live.GetUID())
		if err != nil && !isGone(err) {
			return nil, err
		}
	}
	if err := a.awaitGone(ctx, it, live.GetUID()); err != nil {
		return nil, err
	}
	return a.patch(ctx, it.absent(), false)
}

// mayNotReplace says what keeps an object from being replaced, or how to have it replaced; "" when it may be.
func (a *applier) mayNotReplace(it *item) string {
	switch {
	case slices.Contains(irreplaceable, it.ref.GroupKind()):
		return "convoy never deletes a " + it.ref.Kind + " to create it anew"
	case it.recreate == no:
		return "its annotation " + v1alpha1.AnnotationRecreate + " forbids convoy to delete it and create it anew"
	case it.recreate == yes, a.req.Recreate == v1alpha1.RecreateImmutable:
		return ""
	}
	return "to have it deleted and created anew, set its annotation " + v1alpha1.AnnotationRecreate +
		": \"true\" in the source, or syncPolicy.recreate: Immutable"
}

func (a *applier) mayNotDelete(live *unstructured.Unstructured) string {
	switch {
	case live.GetLabels()[v1alpha1.LabelOwner] != a.req.Owner.Key():
		return "convoy did not make it, and so does not delete it to create it anew: delete it yourself"
	case live.GetAnnotations()[v1alpha1.AnnotationPrune] == "disabled":
		return "its annotation " + v1alpha1.AnnotationPrune + " forbids convoy to delete it and create it anew"
	}
	return ""
}

// rehearse asks the server to create an object without doing so. That its name is taken is the last thing it finds: the
// object is fit then, and what is to make room for it is not deleted in vain. Services are not asked about, since their
// addresses and ports are taken by themselves, and neither are objects with a webhook that knows no rehearsals.
func (a *applier) rehearse(ctx context.Context, it *item) error {
	if it.ref.Group == "" && it.ref.Kind == "Service" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := a.resolve.client(it.mapping, it.ref.Namespace).Create(ctx, it.object, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: a.req.Owner.FieldManager(), FieldValidation: metav1.FieldValidationStrict,
	})
	if apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err) && strings.Contains(messageOf(err), "does not support dry run") {
		return nil
	}
	return err
}

// awaitGone waits until an object is gone, or another has its name.
func (a *applier) awaitGone(ctx context.Context, it *item, uid types.UID) error {
	bounded, cancel := context.WithTimeout(ctx, replaceWait)
	defer cancel()
	why := "it is not gone yet"
	var broken error
	err := growing(50*time.Millisecond, 2*time.Second).Until(bounded, true, true, func(context.Context) (bool, error) {
		live, err := a.get(ctx, it)
		switch {
		case isGone(err):
			return true, nil
		case err != nil:
			broken = err
			return false, err
		case live.GetUID() != uid:
			return true, nil
		}
		why = describeDeleting(live)
		return false, nil
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case broken != nil:
		return broken
	}
	return &stop{v1alpha1.ReasonApplyRetrying, "it is being deleted, to be created anew: " + why, false}
}

// deleteObject asks to delete the object with this UID, and what depends on it.
func deleteObject(ctx context.Context, c dynamic.ResourceInterface, name string, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	policy := metav1.DeletePropagationBackground
	return c.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, PropagationPolicy: &policy})
}
