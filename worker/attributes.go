package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"

	"kumodo.io/convoy/internal/delivery"
)

// searchAttributes are what convoy's workflows can be searched by.
var searchAttributes = map[string]enumspb.IndexedValueType{
	delivery.AttributeCluster:   enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributeRelease:   enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributeNamespace: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributePhase:     enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributeRevision:  enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	delivery.AttributeReady:     enumspb.INDEXED_VALUE_TYPE_BOOL,
}

// unusable is what asking again does not heal: a namespace of Temporal lacks something that convoy cannot give it.
type unusable struct {
	text  string
	cause error
}

func (u *unusable) Error() string { return u.text }

func (u *unusable) Unwrap() error { return u.cause }

// errHidden: the namespace may have all search attributes, but convoy may not look.
var errHidden = errors.New("Temporal does not let convoy list search attributes") //nolint:staticcheck // a name

// SearchAttributes registers the search attributes that a namespace of Temporal lacks, and names them.
func SearchAttributes(ctx context.Context, c client.Client, namespace string) (added []string, err error) {
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	switch {
	case isNoNamespace(err):
		return nil, noNamespace(namespace, err)
	case isDenied(err):
		return nil, fmt.Errorf("%w of its namespace %s, which has to have %s: %w", errHidden, namespace, wanted(searchAttributes), err)
	case err != nil:
		return nil, fmt.Errorf("list the search attributes of namespace %s of Temporal: %w", namespace, err)
	}
	missing := map[string]enumspb.IndexedValueType{}
	for name, kind := range searchAttributes {
		switch is, there := have.GetCustomAttributes()[name]; {
		case !there:
			missing[name] = kind
		case is != kind:
			return nil, &unusable{fmt.Sprintf("the search attribute %s of namespace %s of Temporal is of the type %s, and convoy needs %s: "+
				"remove it there, or use a namespace of convoy's own", name, namespace, is, kind), nil}
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	if isDenied(err) {
		return nil, &unusable{fmt.Sprintf("namespace %s of Temporal lacks the search attributes %s, and Temporal does not let convoy add them: "+
			"have an administrator of Temporal run convoy install search-attributes", namespace, wanted(missing)), err}
	}
	if err != nil {
		return nil, fmt.Errorf("register the search attributes %s in namespace %s of Temporal: %w", wanted(missing), namespace, err)
	}
	return slices.Sorted(maps.Keys(missing)), nil
}

func isNoNamespace(err error) bool {
	_, is := errors.AsType[*serviceerror.NamespaceNotFound](err)
	return is
}

func noNamespace(namespace string, cause error) error {
	return &unusable{fmt.Sprintf("Temporal has no namespace %s: create it, as with temporal operator namespace create %s, "+
		"or name another one by TEMPORAL_NAMESPACE or --temporal-namespace", namespace, namespace), cause}
}

// isDenied reports whether a server refuses a request whoever asks again: it forbids it, or does not serve it at all.
func isDenied(err error) bool {
	_, denied := errors.AsType[*serviceerror.PermissionDenied](err)
	_, absent := errors.AsType[*serviceerror.Unimplemented](err)
	return denied || absent
}

// wanted lists search attributes for people, as the temporal command wants them.
func wanted(attributes map[string]enumspb.IndexedValueType) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		all = append(all, name+"="+attributes[name].String())
	}
	return strings.Join(all, ", ")
}

// awaitTemporal waits until the namespace has what convoy needs. It fails when waiting does not help.
func (w *Worker) awaitTemporal(ctx context.Context) error {
	return persist(ctx, w.options.Logger, time.Second, func(ctx context.Context) error {
		added, err := SearchAttributes(ctx, w.temporal, w.options.Namespace)
		if len(added) > 0 {
			w.options.Logger.Info("registered search attributes", "Namespace", w.options.Namespace, "names", added)
		}
		if errors.Is(err, errHidden) { // if one lacks, Temporal says so of the first workflow
			w.options.Logger.Warn(err.Error())
			return nil
		}
		return err
	})
}

// persist does something until it succeeds, and says once a minute why it has not yet. It fails when waiting does not help.
func persist(ctx context.Context, logger log.Logger, every time.Duration, do func(context.Context) error) error {
	complaint := rate.Sometimes{Interval: time.Minute}
	return wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		err := do(ctx)
		if u, ok := errors.AsType[*unusable](err); ok {
			return false, u
		}
		if err != nil {
			complaint.Do(func() { logger.Warn("Temporal cannot be used yet; waiting for it", "error", err) })
		}
		return err == nil, nil
	})
}
