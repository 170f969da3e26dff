package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"

	"kumodo.io/convoy/internal/delivery"
)

// operator is a Temporal server with one namespace, as far as its search attributes go.
type operator struct {
	client.Client
	operatorservice.OperatorServiceClient
	has                map[string]enumspb.IndexedValueType
	lists, adds        []error // what the next requests fail with
	listed, registered int
}

func (o *operator) OperatorService() operatorservice.OperatorServiceClient { return o }

func next(errs *[]error) (err error) {
	if len(*errs) > 0 {
		err, *errs = (*errs)[0], (*errs)[1:]
	}
	return err
}

func (o *operator) ListSearchAttributes(context.Context, *operatorservice.ListSearchAttributesRequest, ...grpc.CallOption) (*operatorservice.ListSearchAttributesResponse, error) {
	o.listed++
	return &operatorservice.ListSearchAttributesResponse{CustomAttributes: maps.Clone(o.has)}, next(&o.lists)
}

func (o *operator) AddSearchAttributes(_ context.Context, in *operatorservice.AddSearchAttributesRequest, _ ...grpc.CallOption) (*operatorservice.AddSearchAttributesResponse, error) {
	o.registered++
	if err := next(&o.adds); err != nil {
		return nil, err
	}
	maps.Copy(o.has, in.SearchAttributes)
	return &operatorservice.AddSearchAttributesResponse{}, nil
}

func emptied(changes ...func(*operator)) *operator {
	o := &operator{has: map[string]enumspb.IndexedValueType{"Mine": enumspb.INDEXED_VALUE_TYPE_TEXT}}
	for _, change := range changes {
		change(o)
	}
	return o
}

func TestWhatANamespaceLacksIsRegisteredOnce(t *testing.T) {
	o := emptied(func(o *operator) { o.has[delivery.AttributeCluster] = enumspb.INDEXED_VALUE_TYPE_KEYWORD })
	added, err := SearchAttributes(t.Context(), o, "hub")
	if want := []string{"ConvoyNamespace", "ConvoyPhase", "ConvoyReady", "ConvoyRelease", "ConvoyRevision"}; err != nil || !slices.Equal(added, want) {
		t.Errorf("added %v, %v", added, err)
	}
	added, err = SearchAttributes(t.Context(), o, "hub")
	if err != nil || added != nil || o.registered != 1 {
		t.Errorf("the second time: added %v, %v, after %d requests", added, err, o.registered)
	}
}

func TestAWorkerSaysWhatTemporalLacksAndStops(t *testing.T) {
	denied := serviceerror.NewPermissionDenied("no", "")
	for name, tc := range map[string]struct {
		server *operator
		says   []string
	}{
		"there is no namespace": {
			emptied(func(o *operator) { o.lists = []error{serviceerror.NewNamespaceNotFound("hub")} }),
			[]string{"Temporal has no namespace hub", "temporal operator namespace create hub", "--temporal-namespace"},
		},
		"it may not register": {
			emptied(func(o *operator) {
				maps.Copy(o.has, searchAttributes)
				delete(o.has, delivery.AttributeReady)
				o.adds = []error{denied}
			}),
			[]string{"namespace hub of Temporal lacks the search attributes ConvoyReady=Bool,", "convoy install search-attributes"},
		},
		"one is of another type": {
			emptied(func(o *operator) { o.has[delivery.AttributeReady] = enumspb.INDEXED_VALUE_TYPE_KEYWORD }),
			[]string{"search attribute ConvoyReady of namespace hub of Temporal is of the type Keyword, and convoy needs Bool"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := New(tc.server, nil, nil, Options{Namespace: "hub", Logger: &said{}})
			err := w.Start(t.Context())
			for _, words := range tc.says {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("it says %v, want %q", err, words)
				}
			}
		})
	}
}

// said keeps what is logged.
type said struct {
	log.Logger
	lines []string
}

func (s *said) Info(text string, _ ...any) { s.lines = append(s.lines, text) }

func (s *said) Warn(text string, _ ...any) { s.lines = append(s.lines, text) }

func TestAWorkerWaitsForTemporalAndSaysSoOnce(t *testing.T) {
	away := serviceerror.NewUnavailable("not yet")
	o := emptied(func(o *operator) {
		o.lists = []error{away, away}
		o.adds = []error{serviceerror.NewAlreadyExists("another worker was first")}
	})
	logger := &said{}
	if err := New(o, nil, nil, Options{Namespace: "hub", Logger: logger}).awaitTemporal(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"Temporal cannot be used yet; waiting for it", "registered search attributes"}
	if !slices.Equal(logger.lines, want) || o.listed != 4 {
		t.Errorf("after %d requests it said %q", o.listed, logger.lines)
	}
}

func TestAWorkerThatMayNotListSearchAttributesTriesToWorkAllTheSame(t *testing.T) {
	for _, refusal := range []error{serviceerror.NewPermissionDenied("no", ""), serviceerror.NewUnimplemented("no such service")} {
		o, logger := emptied(func(o *operator) { o.lists = []error{refusal} }), &said{}
		if err := New(o, nil, nil, Options{Namespace: "hub", Logger: logger}).awaitTemporal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(logger.lines) != 1 || !strings.Contains(logger.lines[0], "ConvoyCluster=Keyword, ") || o.registered != 0 {
			t.Errorf("it said %q and made %d requests", logger.lines, o.registered)
		}
		if _, err := SearchAttributes(t.Context(), emptied(func(o *operator) { o.lists = []error{refusal} }), "hub"); !errors.Is(err, refusal) {
			t.Errorf("the command says %v", err)
		}
	}
}
