package env

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestATemporalOnPostgresKeepsWhatItHadIfItIsPersistent(t *testing.T) {
	if _, err := os.Stat(filepath.Join(local.bin, "temporal-server")); err != nil {
		t.Skip("bin/temporal-server is missing: make tools-postgres builds it")
	}
	if _, err := postgresBin(); err != nil {
		t.Skip(err)
	}
	for name, persistent := range map[string]bool{"persistent": true, "not": false} {
		t.Run(name, func(t *testing.T) {
			e := &Env{bin: local.bin, run: t.TempDir(), ledger: local.ledger, log: io.Discard}
			instance, err := newTemporal(e, TemporalOptions{Postgres: true, Persistent: persistent, DynamicConfig: map[string]string{"frontend.namespaceRPS": "5000"}})
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
			dial := func() client.Client { // anew each time: an old connection would wait before it tries again
				c, err := client.Dial(client.Options{HostPort: instance.Address})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				return c
			}
			_, err = dial().WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
				Namespace: "mine", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(instance.Kill(), instance.Start(t.Context())); err != nil {
				t.Fatal(err)
			}
			_, err = dial().WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "mine"})
			if _, gone := errors.AsType[*serviceerror.NamespaceNotFound](err); gone == persistent || (err != nil && !gone) {
				t.Errorf("after a kill, the namespace that was made: %v", err)
			}
		})
	}
}
