package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	enumspb "go.temporal.io/api/enums/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// documented is the Cluster of the documentation.
const documented = `apiVersion: core.convoy.kumodo.io/v1alpha1
kind: Cluster
metadata:
  name: convoy-managed
  namespace: default
spec:
  connectionMode: agentless
  agentless:
    server: https://convoy-managed-control-plane:6443
    auth:
      type: kubeconfig
      kubeconfig:
        secretRef:
          name: convoy-managed-kubeconfig
          key: kubeconfig
  metadata:
    type: kind
    role: managed
`

func TestTheDocumentedClusterBecomesReadyAsItIs(t *testing.T) {
	s := newScene(t)
	root, err := env.Root()
	s.must(err)
	sample := filepath.Join(root, "deploy", "samples", "cluster.yaml")
	content, err := os.ReadFile(sample)
	s.must(err)
	if string(content) != documented {
		t.Fatalf("the sample is not the documented Cluster:\n%s", content)
	}
	s.ns = "default" // the sample says so
	secret := s.secret("convoy-managed-kubeconfig", map[string]string{"kubeconfig": string(alpha.Kubeconfig())})
	cluster := &v1alpha1.Cluster{ObjectMeta: s.meta("convoy-managed")}
	t.Cleanup(func() {
		s.ctx = context.Background() // that of the test has ended
		s.remove(cluster)
		s.remove(secret)
		s.awaitGone(hubClient, cluster)
	})
	if _, err := s.kubectl("apply", "-f", sample); err != nil {
		t.Fatal(err)
	}
	s.awaitCluster("convoy-managed", metav1.ConditionTrue, v1alpha1.ReasonReachable)
}

func TestAProbeReadsTheServerVersionAndTheAPIGroups(t *testing.T) {
	s := newScene(t)
	c := s.readyCluster("prod", alpha)
	live, err := discovery.NewDiscoveryClientForConfig(alpha.Config())
	s.must(err)
	version, err := live.ServerVersion()
	s.must(err)
	groups, err := live.ServerGroups()
	s.must(err)
	if c.Status.Reachable == nil || !*c.Status.Reachable {
		t.Error("status.reachable is not true")
	}
	if c.Status.KubernetesVersion != version.GitVersion {
		t.Errorf("status.kubernetesVersion is %q, the server says %q", c.Status.KubernetesVersion, version.GitVersion)
	}
	got := map[string][]string{}
	for _, g := range c.Status.APIGroups {
		got[g.Name] = slices.Sorted(slices.Values(g.Versions))
	}
	for _, g := range groups.Groups {
		var want []string
		for _, v := range g.Versions {
			want = append(want, v.Version)
		}
		slices.Sort(want)
		name := g.Name
		if name == "" {
			name = "core"
		}
		if !slices.Equal(got[name], want) {
			t.Errorf("status.apiGroups has %v of %s, the server serves %v", got[name], name, want)
		}
	}
	if len(got) != len(groups.Groups) {
		t.Errorf("status.apiGroups has %d groups, the server serves %d", len(got), len(groups.Groups))
	}
}

func TestEachClusterHasTheFinalizer(t *testing.T) {
	s := newScene(t)
	agent := s.clusterOf("agent")
	agent.Spec.ConnectionMode = "agent"
	s.create(agent)
	s.create(s.clusterOf("without-secret"))
	s.cluster("ready", alpha.Kubeconfig())
	for _, name := range []string{"agent", "without-secret", "ready"} {
		s.eventually(name+" has the finalizer", func(ctx context.Context) error {
			var c v1alpha1.Cluster
			if err := hubClient.Get(ctx, types.NamespacedName{Namespace: s.ns, Name: name}, &c); err != nil {
				return err
			}
			if !slices.Equal(c.Finalizers, []string{"cluster.core.convoy.kumodo.io/prune-releases"}) {
				return fmt.Errorf("finalizers are %v", c.Finalizers)
			}
			return nil
		})
	}
}

func TestWhatIsNotBuiltIsUnsupportedAndNotRetriedButProbedAgainAtAResync(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "was-here")
	exec := strings.NewReplacer("client-certificate-data:", "exec: {apiVersion: client.authentication.k8s.io/v1, "+
		"interactiveMode: Never, command: touch, args: ["+marker+"]}\n    client-certificate-data:").
		Replace(string(alpha.Kubeconfig()))
	cases := []struct {
		name, names string
		change      func(*v1alpha1.Cluster)
	}{
		{"oidc", "oidc", func(c *v1alpha1.Cluster) { c.Spec.Agentless.Auth = v1alpha1.ClusterAuth{Type: "oidc"} }},
		{"agent", "agent", func(c *v1alpha1.Cluster) { c.Spec.ConnectionMode, c.Spec.Agentless = "agent", nil }},
		{"exec", "exec", func(*v1alpha1.Cluster) {}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t)
			s.cluster("prod", []byte(exec), tc.change)
			c := s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonUnsupported)
			if c.Status.Reachable == nil || *c.Status.Reachable {
				t.Error("status.reachable is not false")
			}
			if m := readyMessage(c); !strings.Contains(m, tc.names) {
				t.Errorf("the message %q does not name %s", m, tc.names)
			}
			s.awaitProbes("prod", 3)
			for _, e := range s.history(s.clusterWorkflow("prod")) {
				if a := e.GetActivityTaskStartedEventAttributes(); a.GetAttempt() > 1 {
					t.Errorf("event %d is attempt %d of an activity", e.GetEventId(), a.GetAttempt())
				}
			}
			s.eventually("no activity is pending", func(context.Context) error {
				if p := s.describe(s.clusterWorkflow("prod")).GetPendingActivities(); len(p) > 0 {
					return fmt.Errorf("pending: %v", p)
				}
				return nil
			})
			if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the command of the kubeconfig was run (%v)", err)
			}
		})
	}
}

func readyMessage(c *v1alpha1.Cluster) string {
	for _, condition := range c.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition.Message
		}
	}
	return ""
}

// awaitProbes waits until the workflow of a Cluster has started at least n probes.
func (s *scene) awaitProbes(name string, n int) {
	s.Helper()
	s.eventually(fmt.Sprintf("Cluster %s was probed %d times", name, n), func(context.Context) error {
		if got := scheduled(s.history(s.clusterWorkflow(name)))["ProbeCluster"]; got < n {
			return fmt.Errorf("it was probed %d times", got)
		}
		return nil
	})
}

func TestAProbeThatFailedIsRetriedAndTheMendedSecretIsUsedAtOnce(t *testing.T) {
	s := newScene(t)
	dead := newLink(t, alpha)
	dead.cut()
	s.cluster("prod", dead.kubeconfig(t, "probe-"+s.ns))
	c := s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	if c.Status.Reachable == nil || *c.Status.Reachable {
		t.Error("status.reachable is not false")
	}
	// Two failures: the third attempt is 8 seconds away at the least.
	var next int64
	s.eventually("the probe is retried", func(context.Context) error {
		p := s.pending(s.clusterWorkflow("prod"), "ProbeCluster")
		if p.GetAttempt() < 3 || p.GetState() != enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
			return fmt.Errorf("pending: %v", p)
		}
		if got := p.GetLastFailure().GetApplicationFailureInfo().GetType(); got != v1alpha1.ReasonProbeFailed {
			return fmt.Errorf("the class of the failure is %q", got)
		}
		next = p.GetNextAttemptScheduleTime().AsTime().Unix()
		return nil
	})
	change(s, &corev1.Secret{ObjectMeta: s.meta("prod-kubeconfig")}, func(o *corev1.Secret) {
		o.Data["kubeconfig"] = alpha.Kubeconfig()
	})
	c = s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	if at := c.Status.LastProbeTime.Unix(); at >= next {
		t.Errorf("the fresh probe came at %d, not before the retry that was due at %d", at, next)
	}
}

func TestAClusterWhoseSecretComesLaterBecomesReady(t *testing.T) {
	s := newScene(t)
	s.create(s.clusterOf("prod"))
	s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	s.secret("prod-kubeconfig", map[string]string{"kubeconfig": string(alpha.Kubeconfig())})
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
}

func TestAResyncProbesAgain(t *testing.T) {
	s := newScene(t)
	first := s.readyCluster("prod", alpha).Status.LastProbeTime
	s.eventually("lastProbeTime moves", func(ctx context.Context) error {
		var c v1alpha1.Cluster
		if err := hubClient.Get(ctx, types.NamespacedName{Namespace: s.ns, Name: "prod"}, &c); err != nil {
			return err
		}
		if !c.Status.LastProbeTime.After(first.Time) {
			return fmt.Errorf("it is still %s", first)
		}
		return nil
	})
}

func TestTheCurrentContextOfTheKubeconfigDecides(t *testing.T) {
	s := newScene(t)
	for _, target := range []*env.ControlPlane{alpha, beta} {
		config, err := clientcmd.Load(alpha.Kubeconfig())
		s.must(err)
		other, err := clientcmd.Load(kubeconfigFor(t, beta, "beta-admin"))
		s.must(err)
		for _, name := range []string{"alpha", "beta"} {
			if c := other.Clusters[name]; c != nil {
				config.Clusters[name], config.Contexts[name] = c, other.Contexts[name]
			}
		}
		config.AuthInfos["beta-admin"] = other.AuthInfos["beta-admin"]
		config.CurrentContext = target.Name
		kubeconfig, err := clientcmd.Write(*config)
		s.must(err)
		s.cluster("to-"+target.Name, kubeconfig)
		c := s.awaitCluster("to-"+target.Name, metav1.ConditionTrue, v1alpha1.ReasonReachable)
		var system corev1.Namespace
		s.must(s.on(target).Get(s.ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &system))
		if c.Status.ClusterID != string(system.UID) {
			t.Errorf("current-context %s leads to cluster %s, not to %s", target.Name, c.Status.ClusterID, system.UID)
		}
	}
}

func TestServerAndCertificateOfTheSpecAreNotUsedWithAKubeconfig(t *testing.T) {
	s := newScene(t)
	s.readyCluster("prod", alpha, func(c *v1alpha1.Cluster) {
		c.Spec.Agentless.Server = "https://nonsense.invalid:1"
		c.Spec.Agentless.CAPublicCertRef = &v1alpha1.CAPublicCertRef{Kind: "Secret", Name: "no-such-secret", Key: "ca.crt"}
	})
}
