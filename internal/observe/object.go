package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

// Object is what is kept of an object.
type Object struct {
	Ref delivery.ObjectRef
	// Owner is the value of its mark, the key of a delivery.Owner.
	Owner string
	// Verdict and Message are those of Checks.Health.
	Verdict Verdict
	Message string

	managers []manager
}

// manager is who owns fields of an object. Many objects have the same sets of fields.
type manager struct {
	name, apiVersion string
	operation        metav1.ManagedFieldsOperationType
	fields           unique.Handle[string]
}

// objectOf keeps what is needed of an object of a kind, which its metadata alone does not name. checks are those of the owners.
func objectOf(ctx context.Context, gvk schema.GroupVersionKind, o any, checks map[string]*Checks) (Object, error) {
	object, ok := o.(runtime.Object)
	if !ok {
		return Object{}, fmt.Errorf("a %T is not an object", o)
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return Object{}, fmt.Errorf("a %T has no metadata: %w", o, err)
	}
	out := Object{
		Ref:   delivery.ObjectRef{Group: gvk.Group, Kind: gvk.Kind, Namespace: m.GetNamespace(), Name: m.GetName()},
		Owner: m.GetLabels()[v1alpha1.LabelOwner], Verdict: Current,
	}
	if u, ok := object.(*unstructured.Unstructured); ok {
		if out.Verdict, out.Message, _ = checks[out.Owner].Health(ctx, u); out.Verdict == Current {
			out.Message = ""
		}
	} else if m.GetDeletionTimestamp() != nil {
		out.Verdict, out.Message = Terminating, beingDeleted
	}
	for _, entry := range m.GetManagedFields() {
		if entry.Subresource == "status" || entry.FieldsV1 == nil {
			continue
		}
		out.managers = append(out.managers, manager{
			name: entry.Manager, apiVersion: entry.APIVersion, operation: entry.Operation, fields: unique.Make(entry.FieldsV1.GetRawString()),
		})
	}
	return out, nil
}

// same reports whether nothing changed that anybody looks at.
func (o Object) same(other Object) bool {
	return o.Owner == other.Owner && o.Verdict == other.Verdict && o.Message == other.Message && slices.Equal(o.managers, other.managers)
}

// size is about how many bytes the object takes, were it the only one with its sets of fields. The zero Object has none.
func (o Object) size() int {
	n := len(o.Ref.Group) + len(o.Ref.Kind) + len(o.Ref.Namespace) + len(o.Ref.Name) + len(o.Owner) + len(o.Message)
	for _, m := range o.managers {
		n += len(m.name) + len(m.apiVersion) + len(m.fields.Value())
	}
	return n
}

// managedFields are those of the object, as far as they are kept.
func (o Object) managedFields() []metav1.ManagedFieldsEntry {
	out := make([]metav1.ManagedFieldsEntry, 0, len(o.managers))
	for _, m := range o.managers {
		out = append(out, metav1.ManagedFieldsEntry{
			Manager: m.name, Operation: m.operation, APIVersion: m.apiVersion, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(m.fields.Value()),
		})
	}
	return out
}

func compareKinds(a, b schema.GroupVersionKind) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Version, b.Version))
}
