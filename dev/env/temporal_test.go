package env

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

func dialTemporal(t *testing.T) client.Client {
	t.Helper()
	c, err := client.DialContext(t.Context(), client.Options{HostPort: local.Temporal.Address, Namespace: Namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// startWorkflow starts a workflow that no worker serves, with each of convoy's search attributes.
func startWorkflow(t *testing.T, c client.Client) string {
	t.Helper()
	var attributes []temporal.SearchAttributeUpdate
	for name, kind := range searchAttributes {
		if kind == "Bool" {
			attributes = append(attributes, temporal.NewSearchAttributeKeyBool(name).ValueSet(true))
			continue
		}
		attributes = append(attributes, temporal.NewSearchAttributeKeyKeyword(name).ValueSet("x"))
	}
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		TaskQueue: "nobody", TypedSearchAttributes: temporal.NewSearchAttributes(attributes...),
	}, "Nothing")
	if err != nil {
		t.Fatal(err)
	}
	return run.GetID()
}

func TestAPersistentTemporalKeepsItsWorkflows(t *testing.T) {
	for name, end := range map[string]func() error{"after Stop": local.Temporal.Stop, "after Kill": local.Temporal.Kill} {
		t.Run(name, func(t *testing.T) {
			c := dialTemporal(t)
			id := startWorkflow(t, c)
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if err := local.Temporal.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the workflow is known", func(ctx context.Context) error {
				_, err := c.DescribeWorkflow(ctx, id, "")
				return err
			})
		})
	}
}

func TestATemporalInMemoryStartsEmptyOnTheSamePort(t *testing.T) {
	instance := newTemporalForTest(t)
	c, err := client.DialContext(t.Context(), client.Options{HostPort: instance.Address, Namespace: Namespace})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	id := startWorkflow(t, c)
	if err := instance.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := instance.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the workflow is forgotten", func(ctx context.Context) error {
		_, err := c.DescribeWorkflow(ctx, id, "")
		if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
			return nil
		}
		return errors.Join(err, errors.New("not forgotten"))
	})
}

// newTemporalForTest starts a second dev server, which the test's end kills.
func newTemporalForTest(t *testing.T) *Temporal {
	t.Helper()
	e := &Env{bin: local.bin, run: t.TempDir(), ledger: local.ledger, log: io.Discard}
	instance, err := newTemporal(e, TemporalOptions{DynamicConfig: map[string]string{"frontend.namespaceRPS": "5000"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := instance.end(); err != nil {
			t.Error(err)
		}
	})
	if err := instance.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return instance
}

func TestAFrozenTemporalAnswersNothingUntilThawed(t *testing.T) {
	c := dialTemporal(t)
	if err := local.Temporal.Freeze(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
	cancel()
	if err == nil {
		t.Error("a frozen server answers")
	}
	if err := local.Temporal.Thaw(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server answers again", func(ctx context.Context) error {
		_, err := c.CheckHealth(ctx, &client.CheckHealthRequest{})
		return err
	})
}

func TestTheWebUIAndTheMetricsAreServed(t *testing.T) {
	for url, want := range map[string]string{local.Temporal.UI: "<html", local.Temporal.Metrics: "service_requests"} {
		eventually(t, url+" is served", func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err == nil && !strings.Contains(string(body), want) {
				err = errors.New("the page does not hold " + want)
			}
			return err
		})
	}
}
