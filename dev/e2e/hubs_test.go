package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/dev/env"
)

// kubeSystem is the UID of the namespace kube-system of a control plane.
func (s *scene) kubeSystem(on client.Client) string {
	s.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	s.must(on.Get(s.ctx, client.ObjectKeyFromObject(ns), ns))
	return string(ns.UID)
}

// temporalNamespace makes a namespace of Temporal with the name of the scene.
func (s *scene) temporalNamespace() {
	s.Helper()
	if out, err := s.temporalCommand("operator", "namespace", "create", s.ns); err != nil {
		s.Fatal(err, out)
	}
}

// convoyOf prepares a convoy of a hub, in the Temporal namespace of the scene.
func (s *scene) convoyOf(name string, hub *env.ControlPlane, flags ...string) *convoy {
	s.Helper()
	file := filepath.Join(s.TempDir(), "hub.kubeconfig")
	s.must(os.WriteFile(file, hub.Kubeconfig(), 0o600))
	c, err := newConvoy(name+"-"+s.ns, append([]string{
		"--kubeconfig=" + file, "--temporal-address=" + s.local.Temporal.Address, "--temporal-namespace=" + s.ns,
	}, flags...)...)
	s.must(err)
	s.Cleanup(func() {
		for _, end := range []func() error{c.kill, c.keep, c.check} {
			if err := end(); err != nil {
				s.Error(err)
			}
		}
	})
	return c
}

// awaitRefused waits until a convoy has ended with an error, and its log holds some words.
func (s *scene) awaitRefused(c *convoy, words ...string) {
	s.Helper()
	s.eventually("convoy "+c.name+" ends", func(context.Context) error {
		if c.pid() != 0 {
			return errors.New("it runs")
		}
		return nil
	})
	log, err := os.ReadFile(c.log)
	s.must(err)
	for _, want := range words {
		if !strings.Contains(string(log), want) || c.err == nil {
			s.Errorf("convoy %s ended with %v, and its log does not say %q:\n%s", c.name, c.err, want, log)
		}
	}
}

func TestASecondHubIsRefusedInANamespaceOfTemporalUntilItTakesOver(t *testing.T) {
	s := newCalmScene(t)
	other := sharedSite()
	s.temporalNamespace()
	at := []string{"--temporal-address=" + s.local.Temporal.Address, "--temporal-namespace=" + s.ns}
	claim := func(args ...string) string {
		s.Helper()
		var out string
		s.eventually("the claim is told", func(context.Context) (err error) { // a namespace that is new takes a moment to be known
			out, err = s.command("convoy-race", append(append([]string{"install", "claim"}, args...), at...)...)
			return err
		})
		return strings.TrimSpace(out)
	}
	serves := func(id string) string { return fmt.Sprintf("Namespace %s of Temporal serves the hub %s", s.ns, id) }
	if out := claim(); out != "Namespace "+s.ns+" of Temporal serves no hub" {
		t.Errorf("at first: %s", out)
	}
	first, second := s.kubeSystem(s.hub), s.kubeSystem(other.hub)
	one := s.convoyOf("one", s.local.Hub, "--roles=worker")
	s.must(one.start(s.ctx))
	if out := claim(); out != serves(first) {
		t.Errorf("once a hub is there: %s", out)
	}
	refusal := fmt.Sprintf("namespace %s of Temporal serves the hub %s, and this is the hub %s: use another namespace", s.ns, first, second)
	for _, role := range []string{"watcher", "worker", "observer"} {
		c := s.convoyOf("two-"+role, other.local.Hub, "--roles="+role)
		s.must(c.launch())
		s.awaitRefused(c, refusal, "convoy install claim --take-over")
	}
	again := s.convoyOf("again", s.local.Hub, "--roles=observer")
	s.must(again.start(s.ctx)) // another process of the first hub is welcome

	if out := claim("--take-over", "--kubeconfig="+other.hubFile); out != serves(second) {
		t.Errorf("after the second took over: %s", out)
	}
	two := s.convoyOf("two", other.local.Hub, "--roles=worker")
	s.must(two.start(s.ctx))
	s.awaitRefused(one, fmt.Sprintf("serves the hub %s, and this is the hub %s", second, first))
	s.awaitRefused(again)
}
