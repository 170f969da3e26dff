package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// web is a Deployment as a source has it. On alpha it becomes ready.
func web(name string) string {
	return fmt.Sprintf("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: %[1]s}\nspec:\n  selector: {matchLabels: {app: %[1]s}}\n"+
		"  template:\n    metadata: {labels: {app: %[1]s}}\n    spec: {containers: [{name: main, image: pause}]}\n", name)
}

// convoyRequests are the requests that convoy made of alpha about a namespace there, or with one of its users.
func (s *scene) convoyRequests(namespace, user string) []auditLine {
	s.Helper()
	var kept []auditLine
	for _, l := range s.recorded(alpha) {
		about := l.ObjectRef.Namespace == namespace || l.ObjectRef.Resource == "namespaces" && l.ObjectRef.Name == namespace
		if l.User.Username == user || about && strings.HasPrefix(l.UserAgent, "convoy") {
			kept = append(kept, l)
		}
	}
	return kept
}

func TestEveryRequestToATargetIsMadeWithTheCredentialsOfItsOwnCluster(t *testing.T) {
	s := newScene(t)
	names := []string{"east", "west"}
	of := func(name string) string { return s.ns + "-" + name } // namespace on the target, and user
	source := map[string]*corev1.ConfigMap{}
	for _, name := range names {
		s.cluster(name, kubeconfigFor(t, alpha, of(name)))
		source[name] = s.configMap(name, map[string]string{
			"web.yaml": web("web"), "kept.yaml": manifest("kept", "a"), "leaving.yaml": manifest("leaving", "b"), "login.yaml": loginManifest,
		})
		s.release(name, name, name, func(r *v1alpha1.Release) { r.Spec.TargetNamespace = of(name) })
	}
	for _, name := range names {
		s.awaitDelivered(name)
		change(s, source[name], func(cm *corev1.ConfigMap) { delete(cm.Data, "leaving.yaml") })
	}
	for _, name := range names {
		s.awaitGone(s.on(alpha), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: of(name), Name: "leaving"}})
		s.awaitDelivered(name)
		s.remove(s.getRelease(name))
	}
	for _, name := range names {
		s.awaitGone(s.hub, &v1alpha1.Release{ObjectMeta: s.meta(name)})
		s.awaitGone(s.on(alpha), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: of(name)}})
	}
	for _, name := range names {
		s.wantOwnCredentials(of(name), s.convoyRequests(of(name), of(name)))
	}
	for _, l := range s.recorded(alpha) {
		if strings.HasPrefix(l.UserAgent, "convoy") && l.User.Username == "admin" && strings.Contains(l.RequestURI, s.ns) {
			t.Errorf("a request was made as somebody else: %s", l)
		}
	}
}

// wantOwnCredentials fails the test when a request about a namespace was made by another user than that of its name, when
// that user asked about another namespace, or when a step that convoy takes is missing.
func (s *scene) wantOwnCredentials(own string, requests []auditLine) {
	s.Helper()
	missing := map[string]bool{
		"get version": true, "get api": true, "patch deployments": true, "patch secrets": true, "patch configmaps": true,
		"delete configmaps": true, "delete deployments": true, "delete namespaces": true,
	}
	for _, l := range requests {
		if l.User.Username != own {
			s.Errorf("%s was made as %q, not as %s", l, l.User.Username, own)
		}
		if strings.Contains(l.RequestURI, "/namespaces/"+s.ns) && !strings.Contains(l.RequestURI, "/namespaces/"+own) {
			s.Errorf("%s was made as %s", l, own)
		}
		resource := l.ObjectRef.Resource
		if resource == "" {
			resource, _, _ = strings.Cut(strings.TrimPrefix(l.RequestURI, "/"), "?")
		}
		delete(missing, l.Verb+" "+resource)
	}
	for step := range missing {
		s.Errorf("%s never made a request to %s", own, step)
	}
}

// rotation is a Cluster of alpha that was Ready with credentials of the user old, and a Release that it took.
type rotation struct {
	*scene
	states   *recorder
	source   *corev1.ConfigMap
	secret   *corev1.Secret
	old, new string
}

// newRotation plays where nobody but the watch notices that a Secret changed.
func newRotation(t *testing.T) *rotation {
	t.Helper()
	s := newCalmScene(t)
	r := &rotation{scene: s, states: s.recordClusters(), old: "old-" + s.ns, new: "new-" + s.ns}
	s.cluster("prod", kubeconfigFor(t, alpha, r.old))
	r.secret = &corev1.Secret{ObjectMeta: s.meta("prod-kubeconfig")}
	r.source = s.greeting("greeting", "1")
	s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	return r
}

func (r *rotation) rollOut(text string) {
	r.Helper()
	change(r.scene, r.source, func(cm *corev1.ConfigMap) { cm.Data["greeting.yaml"] = manifest("greeting", text) })
	r.awaitText(patience, r.on(alpha), "greeting", text)
	r.awaitDelivered("app")
}

// requestsBy counts the requests of a user to alpha, and those of them that write the delivered object.
func (r *rotation) requestsBy(user string) (all, writes int) {
	r.Helper()
	for _, l := range r.recorded(alpha) {
		if l.User.Username != user {
			continue
		}
		all++
		if l.ObjectRef.Name == "greeting" && l.writes() {
			writes++
		}
	}
	return all, writes
}

// awaitRequestOf waits until a target has answered a request of a user.
func (s *scene) awaitRequestOf(target *env.ControlPlane, user string) {
	s.Helper()
	s.eventually(target.Name+" is asked by "+user, func(context.Context) error {
		lines, err := auditLogOf(target).read()
		if err == nil && !slices.ContainsFunc(lines, func(l auditLine) bool { return l.User.Username == user }) {
			err = fmt.Errorf("%d requests are of others", len(lines))
		}
		return err
	})
}

// wantRotated waits until the new user probes, and fails the test when the old one does anything after that.
func (r *rotation) wantRotated() {
	r.Helper()
	r.awaitRequestOf(alpha, r.new)
	before, _ := r.requestsBy(r.old)
	r.rollOut("2")
	if v := r.reprobe(); !v.Reachable {
		r.Errorf("the verdict is %+v", v)
	}
	if after, _ := r.requestsBy(r.old); after != before {
		r.Errorf("%s made %d requests after the rotation", r.old, after-before)
	}
	if _, writes := r.requestsBy(r.new); writes == 0 {
		r.Errorf("%s applied nothing", r.new)
	}
	r.states.wantAlwaysReady(r.scene, "prod")
}

func TestNewCredentialsAreUsedLongBeforeAResyncAndTheClusterStaysReady(t *testing.T) {
	t.Parallel()
	for name, rotate := range map[string]func(*rotation, []byte){
		"the Secret is edited": func(r *rotation, kubeconfig []byte) {
			change(r.scene, r.secret, func(o *corev1.Secret) { o.Data["kubeconfig"] = kubeconfig })
		},
		"the Secret is deleted and made again": func(r *rotation, kubeconfig []byte) {
			r.remove(r.secret)
			r.secret = r.scene.secret("prod-kubeconfig", map[string]string{"kubeconfig": string(kubeconfig)})
		},
		"the Cluster names another Secret": func(r *rotation, kubeconfig []byte) {
			r.scene.secret("next", map[string]string{"kubeconfig": string(kubeconfig)})
			change(r.scene, r.getCluster("prod"), func(c *v1alpha1.Cluster) { c.Spec.Agentless.Auth.Kubeconfig.SecretRef.Name = "next" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRotation(t)
			rotate(r, kubeconfigFor(t, alpha, r.new))
			r.wantRotated()
		})
	}
}

func TestOnlyTheServerOfAKubeconfigChangesToADeadOneAndBack(t *testing.T) {
	s := newScene(t)
	dead := newLink(t, alpha)
	dead.cut()
	user := "server-" + s.ns
	good := kubeconfigFor(t, alpha, user)
	s.cluster("prod", good)
	first := s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	for range 2 {
		s.replaceSecret("prod-kubeconfig", dead.through(good))
		s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
		s.replaceSecret("prod-kubeconfig", good)
		back := s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
		if back.Status.ClusterID != first.Status.ClusterID || back.Generation != first.Generation {
			t.Errorf("the Cluster came back as %s of generation %d", back.Status.ClusterID, back.Generation)
		}
	}
}

// replaceSecret replaces the kubeconfig that a Secret holds.
func (s *scene) replaceSecret(name string, kubeconfig []byte) {
	s.Helper()
	change(s, &corev1.Secret{ObjectMeta: s.meta(name)}, func(o *corev1.Secret) { o.Data = map[string][]byte{"kubeconfig": kubeconfig} })
}

func TestAClusterThatIsMadeAgainUnderTheSameNameNeverUsesTheFormerCredentials(t *testing.T) {
	s := newScene(t)
	former, latter := "former-"+s.ns, "latter-"+s.ns
	cluster := s.cluster("prod", kubeconfigFor(t, alpha, former))
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	s.remove(cluster)
	s.awaitGone(s.hub, cluster)
	s.replaceSecret("prod-kubeconfig", kubeconfigFor(t, beta, latter))
	before := len(s.requestsOf(alpha, former))
	s.create(s.clusterOf("prod"))
	c := s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	var system corev1.Namespace
	s.must(s.on(beta).Get(s.ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, &system))
	if c.Status.ClusterID != string(system.UID) {
		t.Errorf("the Cluster is %s, not %s", c.Status.ClusterID, system.UID)
	}
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	if after := len(s.requestsOf(alpha, former)); after != before {
		t.Errorf("there were %d requests with the former credentials", after-before)
	}
	if s.exists(s.on(alpha), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}) {
		t.Error("the Release went to the former target")
	}
	if len(s.requestsOf(beta, latter)) == 0 {
		t.Error("nothing was done with the latter credentials")
	}
}
