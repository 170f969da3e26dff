package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"kumodo.io/convoy/deploy"
)

// hubWith is an API server, as far as it tells of convoy's kinds: what answer says at the time.
func hubWith(t *testing.T, answer func(http.ResponseWriter)) *rest.Config {
	t.Helper()
	const path = "/openapi/v3/apis/core.convoy.kumodo.io/v1alpha1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/openapi/v3" {
			fmt.Fprintf(w, `{"paths":{"apis/core.convoy.kumodo.io/v1alpha1":{"serverRelativeURL":%q}}}`, path)
			return
		}
		answer(w)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// openAPI is what a hub with these CRDs says, after a change.
func openAPI(t *testing.T, change func(*apiextensionsv1.CustomResourceDefinition)) []byte {
	t.Helper()
	own, err := deploy.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	schemas := map[string]any{}
	for _, crd := range own {
		change(crd)
		v := crd.Spec.Versions[0]
		raw, err := json.Marshal(v.Schema.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		schema := map[string]any{}
		if err := json.Unmarshal(raw, &schema); err != nil {
			t.Fatal(err)
		}
		schema["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": crd.Spec.Group, "version": v.Name, "kind": crd.Spec.Names.Kind}}
		var fields []any
		for _, f := range v.SelectableFields {
			fields = append(fields, map[string]any{"fieldPath": strings.TrimPrefix(f.JSONPath, ".")})
		}
		schema["x-kubernetes-selectable-fields"] = fields
		schemas["io.kumodo."+crd.Spec.Names.Kind] = schema
	}
	out, err := json.Marshal(map[string]any{"components": map[string]any{"schemas": schemas}})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAWorkerWaitsForTheCRDsThatItNeedsAndSaysWhichAndHow(t *testing.T) {
	older := openAPI(t, func(crd *apiextensionsv1.CustomResourceDefinition) {
		switch crd.Spec.Names.Kind {
		case "Approval":
			crd.Spec.Versions[0].SelectableFields = nil
		case "Release":
			delete(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["status"].Properties, "leftovers")
		}
	})
	newer := openAPI(t, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["more"] = apiextensionsv1.JSONSchemaProps{Type: "string"}
	})
	var requests atomic.Int32
	cfg := hubWith(t, func(w http.ResponseWriter) {
		switch requests.Add(1) {
		case 1:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 2, 3:
			_, _ = w.Write(older)
		default:
			_, _ = w.Write(newer)
		}
	})
	var out strings.Builder
	k, err := newKinds(cfg, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatal(err)
	}
	k.period = time.Millisecond
	missing := k.sawMissing(t)
	if k.ready() == nil {
		t.Error("it is ready before it has asked")
	}
	k.await(t.Context())
	if err := k.ready(); err != nil || requests.Load() < 4 {
		t.Errorf("after %d requests: %v", requests.Load(), err)
	}
	want := []lacking{
		{"approvals.core.convoy.kumodo.io", []string{"the selectable field spec.releaseRef.name is gone"}},
		{"releases.core.convoy.kumodo.io", []string{"status.leftovers is gone"}},
	}
	if fmt.Sprint(missing) != fmt.Sprint(want) {
		t.Errorf("the hub lacks %v, want %v", missing, want)
	}
}

// sawMissing asks until the hub answers.
func (k *kinds) sawMissing(t *testing.T) []lacking {
	t.Helper()
	if _, err := lacks(k.openapi, k.own); err == nil {
		t.Error("a hub that fails lacks nothing")
	}
	missing, err := lacks(k.openapi, k.own)
	if err != nil {
		t.Fatal(err)
	}
	return missing
}

func TestWhatTheLogSaysOfOlderCRDs(t *testing.T) {
	var out strings.Builder
	k := &kinds{log: slog.New(slog.NewTextHandler(&out, nil))}
	all := strings.Fields(strings.Repeat("field ", 12))
	k.complain([]lacking{{"releases.core.convoy.kumodo.io", all}}, nil)
	for _, words := range []string{"CRD releases.core.convoy.kumodo.io on the hub is older than this convoy: kubectl apply --server-side -f deploy/crd", "field, and 2 more"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("it says %q, want %q", out.String(), words)
		}
	}
}

func TestAHubThatHidesItsKindsIsWorkedWith(t *testing.T) {
	cfg := hubWith(t, func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) })
	k, err := newKinds(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	k.await(t.Context())
	if err := k.ready(); err != nil {
		t.Error(err)
	}
}

func TestAHubWithoutTheKindsLacksThem(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"paths":{}}`) }))
	t.Cleanup(server.Close)
	k, err := newKinds(&rest.Config{Host: server.URL}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if missing, err := lacks(k.openapi, k.own); err != nil || len(missing) != 4 || missing[0].Lacks[0] != "it is not there" {
		t.Errorf("it lacks %v, %v", missing, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.await(ctx)
	if k.ready() == nil {
		t.Error("it is ready")
	}
}
