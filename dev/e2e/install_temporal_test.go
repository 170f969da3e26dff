package e2e

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

func TestAWorkerNamesTheNamespaceThatTemporalLacks(t *testing.T) {
	s := newScene(t)
	c, err := newConvoy("lacks-"+s.ns, "--roles=worker", "--temporal-namespace="+s.ns)
	s.must(err)
	s.must(c.launch())
	s.eventually("the worker ends", func(context.Context) error {
		if c.pid() != 0 {
			return errors.New("it runs")
		}
		return nil
	})
	log, err := os.ReadFile(c.log)
	s.must(err)
	if want := "Temporal has no namespace " + s.ns + ": create it"; !strings.Contains(string(log), want) || c.err == nil {
		t.Errorf("it ended with %v, and its log does not say %q:\n%s", c.err, want, log)
	}
}

func TestSearchAttributesAreRegisteredByACommandOnce(t *testing.T) {
	s := newScene(t)
	if out, err := s.temporalCommand("operator", "namespace", "create", s.ns); err != nil {
		t.Fatal(err, out)
	}
	for _, want := range []string{
		"Namespace " + s.ns + " of Temporal has now the search attributes ConvoyCluster, ConvoyNamespace, ConvoyPhase, ConvoyReady, ConvoyRelease, ConvoyRevision\n",
		"Namespace " + s.ns + " of Temporal has all search attributes\n",
	} {
		s.eventually(want, func(ctx context.Context) error { // a namespace that is new takes a moment to be known
			out, err := s.command("convoy-race", "install", "search-attributes", "--temporal-address="+s.local.Temporal.Address, "--temporal-namespace="+s.ns)
			if err == nil && out != want {
				s.Fatalf("it says %q, want %q", out, want)
			}
			return err
		})
	}
}

func TestWhatInstallPrintsIsAppliedByKubectl(t *testing.T) {
	s := newCalmScene(t)
	out, err := s.command("convoy-race", "install", "--namespace="+s.ns, "--image=convoy:1")
	s.must(err)
	// Server-side, since CRDs are too large for what kubectl would remember of them otherwise.
	applied := kubectlAt(t, s.site, out, "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-f", "-")
	for _, want := range []string{"deployment.apps/convoy-watcher", "clusterrole.rbac.authorization.k8s.io/convoy-worker", "customresourcedefinition.apiextensions.k8s.io/releases.core.convoy.kumodo.io"} {
		if !strings.Contains(applied, want) {
			t.Errorf("%s is not applied:\n%s", want, applied)
		}
	}
}
