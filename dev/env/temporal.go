package env

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

// Namespace is the Temporal namespace that exists and has the search attributes.
const Namespace = "default"

// searchAttributes are those that convoy's workflows set, with their types.
var searchAttributes = map[string]string{
	"ConvoyCluster": "Keyword", "ConvoyRelease": "Keyword", "ConvoyNamespace": "Keyword",
	"ConvoyPhase": "Keyword", "ConvoyRevision": "Keyword", "ConvoyReady": "Bool",
}

// TemporalOptions says how the Temporal server runs.
type TemporalOptions struct {
	// Postgres runs the server as it is run in production, on a PostgreSQL of its own, instead of the dev server. It has no UI.
	Postgres bool
	// Persistent keeps workflows on disk, so that they survive Stop, Kill and Start. Without it each start begins with
	// an empty Temporal, and is faster.
	Persistent bool
	// DynamicConfig sets values of the server's dynamic configuration; each value is JSON.
	DynamicConfig map[string]string
}

// Temporal is a Temporal server; a dev server has a web UI too. Its ports stay the same through Stop, Kill and Start.
type Temporal struct {
	// Address is the host and port of the frontend (gRPC).
	Address string
	// UI is the URL of the web UI.
	UI string
	// Metrics is the URL of the server's Prometheus metrics.
	Metrics string

	ports   []*port // frontend, UI, metrics, HTTP API; with a database others follow
	process *process

	database   *postgres // nil for a dev server
	persistent bool
}

// serverPorts are how the server calls its ports, in the order in which they are reserved. The dev server has the first four.
var serverPorts = []string{
	"FRONTEND_GRPC_PORT", "", "", "FRONTEND_HTTP_PORT", "FRONTEND_MEMBERSHIP_PORT", "HISTORY_GRPC_PORT", "HISTORY_MEMBERSHIP_PORT",
	"MATCHING_GRPC_PORT", "MATCHING_MEMBERSHIP_PORT", "WORKER_GRPC_PORT", "WORKER_MEMBERSHIP_PORT",
}

// newTemporal prepares a server. It starts nothing.
func newTemporal(e *Env, options TemporalOptions) (*Temporal, error) {
	dir := filepath.Join(e.run, "temporal")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("prepare temporal: %w", err)
	}
	number := 4
	if options.Postgres {
		number = len(serverPorts) + 1
	}
	ports, err := reservePorts(number)
	if err != nil {
		return nil, fmt.Errorf("prepare temporal: %w", err)
	}
	t := &Temporal{
		Address: loopback(ports[0].number),
		UI:      "http://" + loopback(ports[1].number),
		Metrics: "http://" + loopback(ports[2].number) + "/metrics",
		ports:   ports, persistent: options.Persistent,
	}
	if options.Postgres {
		if err := t.onPostgres(e, dir, options); err != nil {
			releasePorts(ports)
			return nil, fmt.Errorf("prepare temporal: %w", err)
		}
		return t, nil
	}
	t.process = e.process("temporal", "temporal", t.args(dir, options))
	return t, nil
}

// onPostgres makes it a server with a database.
func (t *Temporal) onPostgres(e *Env, dir string, options TemporalOptions) (err error) {
	if t.database, err = newPostgres(e, t.ports[len(t.ports)-1]); err != nil {
		return err
	}
	named := map[string]*port{}
	for i, name := range serverPorts {
		if name != "" {
			named[name] = t.ports[i]
		}
	}
	dynamic := filepath.Join(dir, "dynamic.yaml")
	if err := os.WriteFile(dynamic, dynamicConfig(options.DynamicConfig), 0o600); err != nil {
		return err
	}
	t.UI = ""
	t.process = e.process("temporal", "temporal-server", []string{"--allow-no-auth", "start"})
	t.process.env = append(t.database.environment(named, dynamic), "PROMETHEUS_ENDPOINT="+loopback(t.ports[2].number))
	return nil
}

func (t *Temporal) args(dir string, options TemporalOptions) []string {
	args := []string{"server", "start-dev", "--ip=127.0.0.1", "--log-level=warn"}
	for i, flag := range []string{"--port", "--ui-port", "--metrics-port", "--http-port"} {
		args = append(args, fmt.Sprintf("%s=%d", flag, t.ports[i].number))
	}
	for name, kind := range searchAttributes {
		args = append(args, fmt.Sprintf("--search-attribute=%s=%s", name, kind))
	}
	for key, value := range options.DynamicConfig {
		args = append(args, fmt.Sprintf("--dynamic-config-value=%s=%s", key, value))
	}
	if options.Persistent {
		// The defaults sync to disk at each step and are ten times slower on a slow disk.
		args = append(args, "--db-filename="+filepath.Join(dir, "temporal.db"),
			"--sqlite-pragma=journal_mode=wal", "--sqlite-pragma=synchronous=off")
	}
	slices.Sort(args[2:]) // the order of maps must not change the command line
	return args
}

// Start starts the server and returns when the namespace and its search attributes can be used. When it fails, nothing
// is left running. The context bounds the start only.
func (t *Temporal) Start(ctx context.Context) error {
	if t.database != nil {
		if err := t.database.start(ctx); err != nil {
			return err
		}
		if !t.persistent {
			if err := t.database.empty(ctx); err != nil {
				return err
			}
		}
	}
	if err := t.process.start(); err != nil {
		return err
	}
	if err := t.process.waitReady(ctx, t.ready); err != nil {
		return errors.Join(err, t.Kill())
	}
	return nil
}

func (t *Temporal) ready(ctx context.Context) error {
	c, err := client.NewLazyClient(client.Options{HostPort: t.Address, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return err
	}
	if t.database != nil {
		if err := t.furnish(ctx); err != nil {
			return err
		}
	}
	if _, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace}); err != nil {
		return err
	}
	// A server knows what was registered a while before it lets anybody use it.
	_, err = c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: Namespace, Query: strings.Join(slices.Sorted(maps.Keys(searchAttributes)), " IS NOT NULL AND ") + " IS NOT NULL",
	})
	return err
}

// Stop ends the server gracefully; it is killed when it has not ended within its grace period.
func (t *Temporal) Stop() error { return t.process.stop() }

// Kill ends the server at once.
func (t *Temporal) Kill() error { return t.process.kill() }

// Freeze suspends the server: connections are accepted and stay open, and nothing answers.
func (t *Temporal) Freeze() error { return group{t.process}.freeze() }

// Thaw lets a frozen server go on.
func (t *Temporal) Thaw() error { return group{t.process}.thaw() }

// PIDs maps the server's name to its process id, when it runs.
func (t *Temporal) PIDs() map[string]int { return group{t.process}.pids() }

// end ends everything for good, the database too.
func (t *Temporal) end() error {
	defer releasePorts(t.ports)
	errs := []error{t.Kill()}
	if t.database != nil {
		errs = append(errs, t.database.process.kill(), t.database.release())
	}
	return errors.Join(errs...)
}
