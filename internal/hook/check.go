package hook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/expr"
)

const (
	requestTimeout = 30 * time.Second
	// mostObjects that one check looks at.
	mostObjects = 500
	// forgetEvery is how often discovery is asked again for a kind that is not known.
	forgetEvery = 5 * time.Second
)

// Target is a connection to a cluster, as internal/connect builds it.
type Target struct {
	Dynamic dynamic.Interface
	Mapper  meta.ResettableRESTMapper
}

// Check is a check whose templates are executed.
type Check struct {
	kind            schema.GroupVersionKind
	namespace, name string
	selector        string
	expression      string
	values          map[string]any
	forgot          time.Time
}

// NewCheck executes the templates of a check, and refuses an expression that no objects could make true.
func NewCheck(ctx context.Context, h *v1alpha1.HookCheck, c delivery.Context, targetNamespace string) (*Check, error) {
	check := &Check{expression: h.CEL, values: c.Values()}
	gv, err := schema.ParseGroupVersion(h.Target.APIVersion)
	if err != nil {
		return nil, failed("check.target.apiVersion is not valid: write it as apps/v1, or v1")
	}
	check.kind = gv.WithKind(h.Target.Kind)
	for _, field := range []struct {
		name, template string
		into           *string
	}{
		{"namespace", h.Target.Namespace, &check.namespace}, {"name", h.Target.Name, &check.name}, {"labelSelector", h.Target.LabelSelector, &check.selector},
	} {
		if *field.into, err = expr.Template("check.target."+field.name, field.template, check.values); err != nil {
			return nil, verdict(err)
		}
	}
	if check.namespace == "" {
		check.namespace = targetNamespace
	}
	if check.namespace == "" {
		check.namespace = metav1.NamespaceDefault
	}
	if _, err := labels.Parse(check.selector); err != nil {
		return nil, failed("check.target.labelSelector is not a valid selector")
	}
	if h.Target.Name != "" && check.name == "" {
		return nil, failed("check.target.name: the template gives no name")
	}
	if _, err := check.evaluate(ctx, []any{}); errors.Is(err, expr.ErrExpression) {
		return nil, verdict(err)
	}
	return check, nil
}

// Look reads the objects once and evaluates the expression. A value that is not there yet is waited for. Errors are of
// the target as a whole.
func (c *Check) Look(ctx context.Context, t Target) (done bool, waiting string, err error) {
	objects, waiting, err := c.read(ctx, t)
	if err != nil || waiting != "" {
		return false, waiting, err
	}
	ok, err := c.evaluate(ctx, objects)
	switch {
	case err != nil && ctx.Err() != nil:
		return false, "", ctx.Err()
	case err != nil:
		return false, err.Error(), nil //nolint:nilerr // it is waited for, and told when the time is over
	case !ok:
		return false, fmt.Sprintf("check: the expression is false over %d objects", len(objects)), nil
	}
	return true, "", nil
}

func (c *Check) evaluate(ctx context.Context, objects []any) (bool, error) {
	values := map[string]any{"objects": objects}
	maps.Copy(values, c.values)
	var session expr.Session
	return session.Check(ctx, "check.cel", c.expression, values)
}

// read gives the selected objects, or what keeps them from being seen.
func (c *Check) read(ctx context.Context, t Target) (objects []any, waiting string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m, err := meta.ToResettableRESTMapperWithContext(t.Mapper).RESTMappingWithContext(ctx, c.kind.GroupKind(), c.kind.Version)
	if meta.IsNoMatchError(err) {
		if time.Since(c.forgot) > forgetEvery {
			t.Mapper.Reset()
			c.forgot = time.Now()
		}
		return nil, fmt.Sprintf("check.target: the cluster does not serve kind %s in version %s", c.kind.Kind, c.kind.GroupVersion()), nil
	}
	if err != nil {
		return nil, "", err
	}
	var resource dynamic.ResourceInterface = t.Dynamic.Resource(m.Resource)
	if m.Scope.Name() == meta.RESTScopeNameNamespace {
		resource = t.Dynamic.Resource(m.Resource).Namespace(c.namespace)
	}
	found, err := c.list(ctx, resource)
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case apierrors.IsNotFound(err):
		return []any{}, "", nil
	case !errors.As(err, &status), apierrors.IsUnauthorized(err):
		return nil, "", err
	case apierrors.IsForbidden(err):
		return nil, "", failed("check.target: convoy may not read %s: permit get and list on it", m.Resource.GroupResource())
	default:
		return nil, fmt.Sprintf("check.target: %s cannot be read now (%s)", m.Resource.GroupResource(), apierrors.ReasonForError(err)), nil
	}
	if len(found) > mostObjects {
		return nil, "", failed("check.target: it selects more than %d objects; name fewer with labelSelector", mostObjects)
	}
	objects = make([]any, 0, len(found))
	for i := range found {
		unstructured.RemoveNestedField(found[i].Object, "metadata", "managedFields") // large, and of no use
		objects = append(objects, found[i].Object)
	}
	return objects, "", nil
}

func (c *Check) list(ctx context.Context, resource dynamic.ResourceInterface) ([]unstructured.Unstructured, error) {
	if c.name != "" {
		one, err := resource.Get(ctx, c.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return []unstructured.Unstructured{*one}, nil
	}
	all, err := resource.List(ctx, metav1.ListOptions{LabelSelector: c.selector, Limit: mostObjects + 1})
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}
