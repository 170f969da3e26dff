package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// faultScene has a delivered Release app to Cluster prod. Its source is a ConfigMap, or the folder apps of the branch
// stable of a repository.
type faultScene struct {
	*scene
	source     *corev1.ConfigMap
	repository *env.Repository
	kubeconfig *corev1.Secret
}

// sound is what the source holds before a fault and after it is mended.
func sound() map[string]string {
	return map[string]string{
		"kept.yaml": manifest("kept", manifestSentinel), "leaving.yaml": manifest("leaving", "b"), "login.yaml": loginManifest,
	}
}

func newFaultScene(t *testing.T, fromRepository bool) *faultScene {
	t.Helper()
	s := &faultScene{scene: newScene(t)}
	s.readyCluster("prod", beta)
	s.kubeconfig = &corev1.Secret{ObjectMeta: s.meta("prod-kubeconfig")}
	if fromRepository {
		s.repository = s.scene.repository()
		s.commit(s.repository, env.Change{Files: map[string]string{"readme": "another branch"}})
		s.push()
		s.release("app", "prod", "", fromGit(s.repository, "stable", "apps"))
	} else {
		s.source = s.configMap("source", sound())
		s.release("app", "prod", "source")
	}
	s.awaitDelivered("app")
	return s
}

// push commits what is sound to the repository.
func (s *faultScene) push() {
	s.Helper()
	files := map[string]string{}
	for name, content := range sound() {
		files["apps/"+name] = content
	}
	s.commit(s.repository, env.Change{Branch: "stable", Files: files})
}

// holds replaces the content of the source.
func (s *faultScene) holds(files map[string]string) {
	s.Helper()
	change(s.scene, s.source, func(cm *corev1.ConfigMap) { cm.Data = files })
}

// gains makes the source hold something more, while something else leaves it.
func (s *faultScene) gains(content string) {
	s.Helper()
	files := sound()
	delete(files, "leaving.yaml")
	files["more.yaml"] = content
	s.holds(files)
}

// replaceKubeconfig replaces the kubeconfig that the Cluster reads.
func (s *faultScene) replaceKubeconfig(content []byte) {
	s.Helper()
	change(s.scene, s.kubeconfig, func(secret *corev1.Secret) { secret.Data = map[string][]byte{"kubeconfig": content} })
}

// replaceServer lets the kubeconfig name another server.
func (s *faultScene) replaceServer(address string) {
	s.Helper()
	s.replaceKubeconfig(bytes.ReplaceAll(beta.Kubeconfig(), []byte(beta.Server), []byte("https://"+address)))
}

// wantNothingPruned fails the test when something that was delivered is gone.
func (s *faultScene) wantNothingPruned() {
	s.Helper()
	on := s.on(beta)
	for _, name := range []string{"kept", "leaving"} {
		if !s.exists(on, &corev1.ConfigMap{ObjectMeta: s.meta(name)}) {
			s.Errorf("ConfigMap %s was pruned", name)
		}
	}
	if !s.exists(on, &corev1.Secret{ObjectMeta: s.meta("login")}) {
		s.Errorf("Secret login was pruned")
	}
}

// wantRecovery waits until the Release is delivered again, with nothing left of the fault, by the convoy that ran all the time.
func (s *faultScene) wantRecovery() {
	s.Helper()
	s.awaitDelivered("app")
	s.awaitIdle("app")
	s.wantGood(s.awaitDelivered("app"))
	s.wantNothingPruned()
}

// fault is something that goes wrong, how it is mended, and what the message has to name.
type fault struct {
	happen, mend func(*faultScene)
	names        []string
}

func clusterFaults() map[string]fault {
	mendKubeconfig := func(s *faultScene) { s.replaceKubeconfig(beta.Kubeconfig()) }
	return map[string]fault{
		"the Secret is missing": {
			func(s *faultScene) { s.remove(s.kubeconfig) },
			func(s *faultScene) {
				s.secret("prod-kubeconfig", map[string]string{"kubeconfig": string(beta.Kubeconfig())})
			},
			[]string{"Secret prod-kubeconfig", "does not exist"},
		},
		"the key is another one": {
			func(s *faultScene) { s.useKey("another") }, func(s *faultScene) { s.useKey("kubeconfig") },
			[]string{"Secret prod-kubeconfig", "no key another"},
		},
		"the kubeconfig is garbage": {
			func(s *faultScene) { s.replaceKubeconfig([]byte("\tpassword: " + secretSentinel + "-garbage [")) }, mendKubeconfig,
			[]string{"Secret prod-kubeconfig", "key kubeconfig", "not valid YAML"},
		},
		"nothing listens at the server": {
			func(s *faultScene) {
				address, err := freeAddress()
				s.must(err)
				s.replaceServer(address)
			}, mendKubeconfig,
			[]string{"connection refused"},
		},
		"the server never answers": {
			func(s *faultScene) {
				silent, err := net.Listen("tcp", "127.0.0.1:0")
				s.must(err)
				s.Cleanup(func() { _ = silent.Close() })
				s.replaceServer(silent.Addr().String())
			}, mendKubeconfig,
			[]string{"did not answer in time"},
		},
	}
}

func TestAClusterThatCannotBeReachedSaysWhyAndRecovers(t *testing.T) {
	t.Parallel()
	for name, fault := range clusterFaults() {
		t.Run(name, func(t *testing.T) {
			s := newFaultScene(t, false)
			fault.happen(s)
			c := s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
			if c.Status.Reachable == nil || *c.Status.Reachable {
				t.Errorf("status.reachable is %v", c.Status.Reachable)
			}
			message := s.wantMessage(c.Status.Conditions, v1alpha1.ConditionReady, fault.names...)
			s.ask("app")
			before := s.awaitClosed("app")
			s.wantMessage(before.Status.Conditions, v1alpha1.ConditionApplied, `"prod"`)

			s.awaitAttempt(s.clusterWorkflow("prod"), "ProbeCluster", 3)
			s.awaitAttempt(s.releaseWorkflow("app"), "CheckCluster", 3)
			c = s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
			if again := s.wantMessage(c.Status.Conditions, v1alpha1.ConditionReady); again != message {
				t.Errorf("a retry changed the message from %q to %q", message, again)
			}
			if after := s.getRelease("app"); after.ResourceVersion != before.ResourceVersion {
				t.Errorf("a retry of the gate wrote the Release")
			}
			s.wantNothingPruned()

			fault.mend(s)
			s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
			s.wantRecovery()
			if n := s.getRelease("app").Status.Rollout.Number; n != 1 {
				t.Errorf("an outage without a change made %d rollouts", n)
			}
		})
	}
}

// useKey lets the Cluster read another entry of the Secret.
func (s *faultScene) useKey(key string) {
	s.Helper()
	change(s.scene, &v1alpha1.Cluster{ObjectMeta: s.meta("prod")}, func(c *v1alpha1.Cluster) {
		c.Spec.Agentless.Auth.Kubeconfig.SecretRef.Key = key
	})
}

// fetchedAgain waits until the Release has tried for the third time.
func fetchedAgain(s *faultScene) {
	s.Helper()
	s.awaitAttempt(s.releaseWorkflow("app"), "FetchSource", 3)
}

func TestASourceThatCannotBeReadSaysWhyAndRecovers(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]struct {
		git          bool
		happen, mend func(*faultScene)
		retried      func(*faultScene)
		names        []string
	}{
		"the ConfigMap is missing": {
			false, func(s *faultScene) { s.remove(s.source) }, func(s *faultScene) { s.configMap("source", sound()) },
			fetchedAgain,
			[]string{"ConfigMap source"},
		},
		"the branch is missing": {
			true, func(s *faultScene) {
				_, err := s.repository.Git(s.ctx, "push", "origin", "--delete", "stable")
				s.must(err)
			}, (*faultScene).push,
			func(s *faultScene) { // by the workflow of the source, for all who use it
				s.eventually("the source is looked at again", func(context.Context) error {
					if n := s.looks(s.sourceWorkflow("app")); n < 5 {
						return fmt.Errorf("%d looks", n)
					}
					return nil
				})
			},
			[]string{"branch stable"},
		},
		"the path is missing": {
			true, func(s *faultScene) { s.commit(s.repository, env.Change{Branch: "stable", Delete: []string{"apps"}}) }, (*faultScene).push,
			fetchedAgain,
			[]string{"branch stable", "path apps"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFaultScene(t, fault.git)
			fault.happen(s)
			before := s.awaitRelease("app", v1alpha1.ConditionSourceReady, metav1.ConditionFalse, v1alpha1.ReasonSourceNotFound)
			s.wantMessage(before.Status.Conditions, v1alpha1.ConditionReady, fault.names...)
			fault.retried(s)
			if after := s.getRelease("app"); after.ResourceVersion != before.ResourceVersion {
				t.Errorf("a retry wrote the Release")
			}
			s.wantNothingPruned()
			fault.mend(s)
			s.wantRecovery()
		})
	}
}

// bad manifests, each with what is wrong with it in its name.
const (
	invalidYAML   = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: broken\ndata: {text: " + manifestSentinel + "}\n"
	unknownKind   = "apiVersion: example.test/v1\nkind: Widget\nmetadata: {name: unknown}\nspec: {text: " + manifestSentinel + "}\n"
	unknownField  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: misspelt}\ndatas: {text: " + manifestSentinel + "}\n"
	invalidField  = "apiVersion: v1\nkind: Service\nmetadata: {name: invalid}\nspec: {ports: [{port: 99999}]}\n"
	echoedSecret  = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: echo, labels: {password: " + secretSentinel + "-login}, annotations: {'not a key!': " + secretSentinel + "-login}}\n"
	refusedSecret = "apiVersion: v1\nkind: Secret\nmetadata: {name: refused}\ntype: kubernetes.io/tls\nstringData: {tls.key: " + secretSentinel + "-key}\n"
	numericSecret = "apiVersion: v1\nkind: Secret\nmetadata: {name: numeric}\nstringData: {pin: 8675309, note: " + secretSentinel + "-note}\n"
)

// deliveryFault is a fault of what a source holds, and the condition that tells of it.
type deliveryFault struct {
	happen, mend      func(*faultScene)
	condition, reason string
	names             []string
}

func deliveryFaults() map[string]deliveryFault {
	gains := func(content string) func(*faultScene) { return func(s *faultScene) { s.gains(content) } }
	mend := func(s *faultScene) { s.holds(sound()) }
	return map[string]deliveryFault{
		"the YAML is invalid": {gains(invalidYAML), mend, v1alpha1.ConditionRendered, v1alpha1.ReasonRenderFailed, []string{"more.yaml", "line"}},
		"an object is there twice": {
			gains(manifest("kept", "again")), mend, v1alpha1.ConditionRendered, v1alpha1.ReasonRenderFailed,
			[]string{"ConfigMap", "kept", "kept.yaml", "more.yaml"},
		},
		"a template reads a key that is missing": {
			func(s *faultScene) {
				change(s.scene, &v1alpha1.Release{ObjectMeta: s.meta("app")}, mutation("zone", v1alpha1.MutationTarget{Kind: "ConfigMap"}, "data: {zone: '{{ .cluster.zone }}'}"))
			},
			func(s *faultScene) {
				change(s.scene, &v1alpha1.Release{ObjectMeta: s.meta("app")}, func(r *v1alpha1.Release) { r.Spec.Mutations = nil })
			},
			v1alpha1.ConditionRendered, v1alpha1.ReasonRenderFailed,
			[]string{"mutation zone", "kept", `"zone"`},
		},
		"nothing is left": {
			func(s *faultScene) { s.holds(map[string]string{"notes.txt": "no manifest"}) }, mend,
			v1alpha1.ConditionRendered, v1alpha1.ReasonEmptyRender,
			[]string{"allowEmpty"},
		},
		"a kind is unknown":                         {gains(unknownKind), mend, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed, []string{"Widget", "unknown", "example.test/v1"}},
		"a field is unknown":                        {gains(unknownField), mend, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed, []string{"ConfigMap", "misspelt", "datas"}},
		"a field is invalid":                        {gains(invalidField), mend, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed, []string{"Service", "invalid", "spec.ports[0].port"}},
		"an object that quotes a Secret is refused": {gains(echoedSecret), mend, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed, []string{"ConfigMap", "echo"}},
		"a Secret is refused":                       {gains(refusedSecret), mend, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed, []string{"Secret", "refused"}},
		"a Secret holds a number":                   {gains(numericSecret), mend, v1alpha1.ConditionApplied, v1alpha1.ReasonApplyFailed, []string{"Secret", "numeric"}},
	}
}

func TestASourceThatCannotBeDeliveredSaysWhyAndRecovers(t *testing.T) {
	t.Parallel()
	for name, fault := range deliveryFaults() {
		t.Run(name, func(t *testing.T) {
			s := newFaultScene(t, false)
			fault.happen(s)
			s.awaitRelease("app", fault.condition, metav1.ConditionFalse, fault.reason)
			s.awaitIdle("app")
			before := s.awaitRelease("app", v1alpha1.ConditionStalled, metav1.ConditionTrue, fault.reason)
			message := s.wantMessage(before.Status.Conditions, fault.condition, fault.names...)
			s.reconcile("app")
			s.awaitIdle("app")
			after := s.awaitRelease("app", v1alpha1.ConditionStalled, metav1.ConditionTrue, fault.reason)
			if again := s.wantMessage(after.Status.Conditions, fault.condition); again != message {
				t.Errorf("a retry changed the message from %q to %q", message, again)
			}
			if fault.condition == v1alpha1.ConditionRendered && after.ResourceVersion != before.ResourceVersion {
				t.Errorf("a retry wrote the Release")
			}
			s.wantNothingPruned()
			fault.mend(s)
			s.wantRecovery()
		})
	}
}

func TestAnEmptyRenderPrunesEverythingWhenThatIsAllowed(t *testing.T) {
	s := newFaultScene(t, false)
	change(s.scene, &v1alpha1.Release{ObjectMeta: s.meta("app")}, func(r *v1alpha1.Release) { r.Spec.SyncPolicy.AllowEmpty = true })
	s.holds(map[string]string{"notes.txt": "no manifest"})
	on := s.on(beta)
	for _, name := range []string{"kept", "leaving"} {
		s.awaitGone(on, &corev1.ConfigMap{ObjectMeta: s.meta(name)})
	}
	s.awaitIdle("app")
	s.wantGood(s.awaitDelivered("app"))
}
