package env

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
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

func TestATemporalStartsEmptyOnTheSamePortUnlessItIsPersistent(t *testing.T) {
	for name, options := range map[string]TemporalOptions{
		"in memory":                 {},
		"PostgreSQL":                {Postgres: true},
		"PostgreSQL and persistent": {Postgres: true, Persistent: true},
	} {
		t.Run(name, func(t *testing.T) {
			if options.Postgres {
				needsPostgres(t)
			}
			options.DynamicConfig = map[string]string{"frontend.namespaceRPS": "5000"}
			instance := startedTemporal(t, options)
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
			eventually(t, "it is told whether the workflow is known", func(ctx context.Context) error {
				_, err := c.DescribeWorkflow(ctx, id, "")
				_, forgotten := errors.AsType[*serviceerror.NotFound](err)
				if err != nil && !forgotten {
					return err
				}
				if forgotten == options.Persistent {
					t.Errorf("the workflow: %v", err)
				}
				return nil
			})
		})
	}
}

// needsPostgres skips a test that wants a server with a database where there is none.
func needsPostgres(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(local.bin, "temporal-server")); err != nil {
		t.Skip("bin/temporal-server is missing: make tools-postgres builds it")
	}
	if _, err := postgresBin(); err != nil {
		t.Skip(err)
	}
}

// startedTemporal starts a second server, which the test's end kills.
func startedTemporal(t *testing.T, options TemporalOptions) *Temporal {
	t.Helper()
	e := &Env{bin: local.bin, run: t.TempDir(), ledger: local.ledger, log: io.Discard}
	instance, err := newTemporal(e, options)
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
