package env

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"go.temporal.io/api/operatorservice/v1"
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

// TemporalOptions says how the Temporal dev server runs.
type TemporalOptions struct {
	// Persistent keeps workflows on disk, so that they survive Stop, Kill and Start. Without it each start begins with
	// an empty Temporal, and is faster.
	Persistent bool
	// DynamicConfig sets values of the server's dynamic configuration; each value is JSON.
	DynamicConfig map[string]string
}

// Temporal is a Temporal dev server with its web UI. Its ports stay the same through Stop, Kill and Start.
type Temporal struct {
	// Address is the host and port of the frontend (gRPC).
	Address string
	// UI is the URL of the web UI.
	UI string
	// Metrics is the URL of the server's Prometheus metrics.
	Metrics string

	ports   []*port // frontend, UI, metrics, HTTP API
	process *process
}

// newTemporal prepares a dev server. It starts nothing.
func newTemporal(e *Env, options TemporalOptions) (*Temporal, error) {
	dir := filepath.Join(e.run, "temporal")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("prepare temporal: %w", err)
	}
	ports, err := reservePorts(4)
	if err != nil {
		return nil, fmt.Errorf("prepare temporal: %w", err)
	}
	t := &Temporal{
		Address: loopback(ports[0].number),
		UI:      "http://" + loopback(ports[1].number),
		Metrics: "http://" + loopback(ports[2].number) + "/metrics",
		ports:   ports,
	}
	t.process = e.process("temporal", "temporal", t.args(dir, options))
	return t, nil
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
	if _, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace}); err != nil {
		return err
	}
	list, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: Namespace})
	if err != nil {
		return err
	}
	for name := range searchAttributes {
		if _, ok := list.GetCustomAttributes()[name]; !ok {
			return fmt.Errorf("search attribute %s is not registered yet", name)
		}
	}
	return nil
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

// release gives the ports up. The server must be stopped and cannot be started again.
func (t *Temporal) release() { releasePorts(t.ports) }
