package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"kumodo.io/convoy/api/v1alpha1"
)

// accountToken is a token of an administrator on alpha: a service account with that name.
func (s *scene) accountToken(name string) string {
	s.Helper()
	on := s.on(alpha)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.must(on.Create(s.ctx, account))
	s.must(on.Create(s.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}))
	request := &authenticationv1.TokenRequest{}
	s.must(on.SubResource("token").Create(s.ctx, account, request))
	return request.Status.Token
}

// withToken describes a Cluster of alpha that presents the token in Secret <name>-token, and trusts what ca names.
func (s *scene) withToken(name string, ca *v1alpha1.CAPublicCertRef) *v1alpha1.Cluster {
	c := s.clusterOf(name)
	c.Spec.Agentless.Server, c.Spec.Agentless.CAPublicCertRef = alpha.Server, ca
	c.Spec.Agentless.Auth = v1alpha1.ClusterAuth{
		Type: v1alpha1.AuthTypeToken, Token: &v1alpha1.TokenAuth{SecretRef: v1alpha1.TokenSecretRef{Name: name + "-token", Key: "token"}},
	}
	return c
}

func TestATokenInASecretIsUsedWithTheServerAndTheAuthorityOfTheSpec(t *testing.T) {
	s := newScene(t)
	ca, err := alpha.CA()
	s.must(err)
	s.configMap("authority", map[string]string{"ca.crt": string(ca), "another": string(ca)})
	s.secret("authority", map[string]string{"ca.crt": string(ca)})
	wrong := s.configMap("wrong-authority", map[string]string{"ca.crt": string(authority(t).pem), "garbage": "no PEM"})
	token := s.accountToken("first-" + s.ns)
	inMap, inSecret := &v1alpha1.CAPublicCertRef{Kind: "ConfigMap", Name: "authority", Key: "another"}, &v1alpha1.CAPublicCertRef{Kind: "Secret", Name: "authority", Key: "ca.crt"}
	no := func(name, key string) *v1alpha1.CAPublicCertRef {
		return &v1alpha1.CAPublicCertRef{Kind: "ConfigMap", Name: name, Key: key}
	}
	for name, c := range map[string]struct {
		token string
		ca    *v1alpha1.CAPublicCertRef
		names []string // of the message when it is to fail
	}{
		"prod":              {token, inMap, nil},
		"line-at-the-end":   {token + "\r\n", inSecret, nil},
		"line-in-the-token": {token[:20] + "\r\n" + token[20:], inMap, []string{"Secret line-in-the-token-token", "key token"}},
		"empty":             {"\n", inMap, []string{"Secret empty-token", "key token"}},
		"another-token":     {secretToken("unknown"), inMap, []string{"HTTP 401"}},
		"wrong-authority":   {token, no("wrong-authority", "ca.crt"), []string{"unknown authority"}},
		"no-authority":      {token, no("missing", "ca.crt"), []string{"ConfigMap missing", "does not exist"}},
		"no-key":            {token, no("authority", "missing"), []string{"ConfigMap authority", "key missing"}},
		"garbage":           {token, no("wrong-authority", "garbage"), []string{"ConfigMap wrong-authority", "key garbage", "PEM"}},
	} {
		s.secret(name+"-token", map[string]string{"token": c.token})
		s.create(s.withToken(name, c.ca))
		if c.names == nil {
			s.awaitCluster(name, metav1.ConditionTrue, v1alpha1.ReasonReachable)
			continue
		}
		failed := s.awaitCluster(name, metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
		if m := s.wantMessage(failed.Status.Conditions, v1alpha1.ConditionReady, c.names...); strings.Contains(m, token[:20]) || strings.Contains(m, "kubeconfig") {
			t.Errorf("%s: the message holds the token, or speaks of a kubeconfig: %s", name, m)
		}
	}
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	if user := "system:serviceaccount:default:first-" + s.ns; len(s.convoyRequests(s.ns, user)) == 0 {
		t.Errorf("nothing was done as %s", user)
	}
	change(s, wrong, func(cm *corev1.ConfigMap) { cm.Data["ca.crt"] = string(ca) })
	s.awaitCluster("wrong-authority", metav1.ConditionTrue, v1alpha1.ReasonReachable)
}

func TestAClientCertificateInASecretIsUsedWithTheServerAndTheAuthorityOfTheSpec(t *testing.T) {
	s := newScene(t)
	states := s.recordClusters()
	ca, err := alpha.CA()
	s.must(err)
	s.configMap("authority", map[string]string{"ca.crt": string(ca)})
	pair := func(user string) map[string][]byte {
		config, err := clientcmd.Load(kubeconfigFor(t, alpha, user))
		s.must(err)
		a := config.AuthInfos[user]
		return map[string][]byte{corev1.TLSCertKey: a.ClientCertificateData, corev1.TLSPrivateKeyKey: a.ClientKeyData}
	}
	first, second := "first-"+s.ns, "second-"+s.ns
	mixed := pair(first)
	mixed[corev1.TLSPrivateKeyKey] = pair(second)[corev1.TLSPrivateKeyKey]
	for name, data := range map[string]map[string][]byte{"prod": pair(first), "mixed": mixed} {
		s.create(&corev1.Secret{ObjectMeta: s.meta(name + "-tls"), Type: corev1.SecretTypeTLS, Data: data})
		c := s.clusterOf(name)
		c.Spec.Agentless.Server = alpha.Server
		c.Spec.Agentless.CAPublicCertRef = &v1alpha1.CAPublicCertRef{Kind: "ConfigMap", Name: "authority", Key: "ca.crt"}
		c.Spec.Agentless.Auth = v1alpha1.ClusterAuth{
			Type:              v1alpha1.AuthTypeClientCertificate,
			ClientCertificate: &v1alpha1.ClientCertificateAuth{SecretRef: v1alpha1.CertificateSecretRef{Name: name + "-tls"}},
		}
		s.create(c)
	}
	c := s.awaitCluster("mixed", metav1.ConditionFalse, v1alpha1.ReasonProbeFailed)
	s.wantMessage(c.Status.Conditions, v1alpha1.ConditionReady, "Secret mixed-tls", "tls.crt", "tls.key")
	s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	change(s, &corev1.Secret{ObjectMeta: s.meta("prod-tls")}, func(o *corev1.Secret) { o.Data = pair(second) })
	s.awaitRequestOf(alpha, second)
	before := len(s.requestsOf(alpha, first))
	s.greeting("greeting", "hello")
	s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	if after := len(s.requestsOf(alpha, first)); before == 0 || after != before {
		t.Errorf("the first certificate was used %d times, and %d times after the second", before, after-before)
	}
	states.wantAlwaysReady(s, "prod")
}

func TestAddressesThatNobodyMayConnectToAreRefusedByName(t *testing.T) {
	s := newScene(t)
	servers := map[string]string{
		"link-local": "https://169.254.169.254", "link-local-6": "https://[fe80::1]:6443", "metadata": "https://[fd00:ec2::254]",
		"unspecified": "https://0.0.0.0:6443", "unspecified-6": "https://[::]:6443",
		"mapped": "https://[::ffff:169.254.169.254]", "multicast": "https://224.0.0.1",
	}
	for name, server := range servers {
		s.cluster(name, tokenKubeconfig(t, server, authority(t).pem, secretToken("address")))
	}
	for name, server := range servers {
		var m string
		s.eventually("Cluster "+name+" is refused", func(context.Context) error {
			c := s.getCluster(name)
			m = readyMessage(c)
			return s.compare(c.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionFalse, "", c.Generation)
		})
		if !strings.Contains(m, "convoy does not connect to") || strings.Contains(m, strings.TrimPrefix(server, "https://")) {
			t.Errorf("%s: the message is %q", name, m)
		}
	}
}

func TestAnotherClusterBehindTheSameAddressIsNotTouchedUntilSomebodyAcceptsIt(t *testing.T) {
	s := newScene(t)
	door := newStub(t, "127.0.0.1", conduct{answer: forwards(t, alpha, "")})
	s.cluster("prod", door.kubeconfig(t, secretToken("door")))
	first := s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable)
	source := s.greeting("greeting", "1")
	s.release("app", "prod", "greeting")
	s.awaitDelivered("app")
	s.awaitIdle("app")

	var writes []*http.Request
	door.become(conduct{answer: forwards(t, beta, "")})
	seen := len(door.came())
	change(s, source, func(cm *corev1.ConfigMap) { cm.Data["greeting.yaml"] = manifest("greeting", "2") }) // at once, before a probe
	held := s.awaitCluster("prod", metav1.ConditionFalse, v1alpha1.ReasonClusterIdentityChanged)
	s.ask("app")
	s.awaitClosed("app")
	for _, r := range door.came()[seen:] {
		if r.Method != http.MethodGet {
			writes = append(writes, r)
		}
	}
	if held.Status.Reachable == nil || *held.Status.Reachable || held.Status.ClusterID != first.Status.ClusterID {
		t.Errorf("reachable=%v, clusterID=%s", held.Status.Reachable, held.Status.ClusterID)
	}
	if len(writes) > 0 || s.exists(s.on(beta), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}}) {
		t.Errorf("the other cluster was written to: %d requests", len(writes))
	}
	var system corev1.Namespace
	system.Name = metav1.NamespaceSystem
	if !s.exists(s.on(beta), &system) {
		t.Fatal("beta has no kube-system")
	}
	s.wantMessage(held.Status.Conditions, v1alpha1.ConditionReady, string(system.UID), v1alpha1.AnnotationAcceptClusterID)

	door.become(conduct{answer: forwards(t, alpha, "")}) // the former one comes back
	if v := s.reprobe(); !v.Reachable {
		t.Errorf("the verdict of the former cluster is %+v", v)
	}
	door.become(conduct{answer: forwards(t, beta, "")})
	if v := s.reprobe(); v.Reachable || v.Reason != v1alpha1.ReasonClusterIdentityChanged {
		t.Errorf("the verdict of the other cluster is %+v", v)
	}
	change(s, held, func(c *v1alpha1.Cluster) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationAcceptClusterID, string(system.UID))
	})
	if accepted := s.awaitCluster("prod", metav1.ConditionTrue, v1alpha1.ReasonReachable); accepted.Status.ClusterID != string(system.UID) {
		t.Errorf("clusterID is %s", accepted.Status.ClusterID)
	}
	s.ask("app") // it may not have waited any more
	s.awaitText(patience, s.on(beta), "greeting", "2")
}

func TestAWholeNamespaceOfTheHubIsDeletedAndCleansUpOnTheTarget(t *testing.T) {
	t.Parallel()
	for _, prune := range []bool{false, true} {
		t.Run(fmt.Sprintf("pruneReleases is %v", prune), func(t *testing.T) {
			s := newScene(t)
			s.cluster("prod", kubeconfigFor(t, alpha, "whole-"+s.ns), func(c *v1alpha1.Cluster) { c.Spec.DeletionPolicy.PruneReleases = prune })
			for _, name := range []string{"one", "two"} {
				s.greeting(name, "hello")
				s.release(name, "prod", name)
			}
			for _, name := range []string{"one", "two"} {
				s.awaitDelivered(name)
			}
			user := &corev1.Secret{ObjectMeta: s.meta("prod-kubeconfig")}
			if !s.exists(s.hub, user) || len(user.Finalizers) > 0 {
				t.Errorf("the user's own Secret has finalizers %v", user.Finalizers)
			}
			s.remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}})
			s.awaitGone(s.hub, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.ns}})
			for _, name := range []string{"one", "two"} {
				if s.exists(s.on(alpha), &corev1.ConfigMap{ObjectMeta: s.meta(name)}) {
					t.Errorf("ConfigMap %s is still on the target", name)
				}
			}
			s.awaitEnd(s.clusterWorkflow("prod"))
		})
	}
}
