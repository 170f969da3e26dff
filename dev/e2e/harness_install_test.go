package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/dev/env"
)

// home is the namespace that deploy/base installs convoy in.
const home = "convoy-system"

// newHub starts a hub, with a Temporal, for one test alone. It records its requests.
func newHub(t *testing.T, name string, changes ...func(*env.Options)) site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	options := env.Options{Bin: os.Getenv("KUBEBUILDER_ASSETS"), Temporal: temporalOptions(), Hub: env.ControlPlaneOptions{Name: name, Controllers: true, Audit: true}}
	for _, apply := range changes {
		apply(&options)
	}
	e, err := env.Start(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	at, err := siteOf(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(at.temporal.Close)
	return at
}

// folder is a folder of the checkout.
func folder(t *testing.T, path ...string) string {
	t.Helper()
	root, err := env.Root()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, path...)...)
}

// kubectlAt runs kubectl against the hub of a site, which must succeed.
func kubectlAt(t *testing.T, at site, input string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary("kubectl"), append(args, "--kubeconfig="+at.hubFile)...)
	cmd.Env, cmd.Stdin = bareEnvironment(t.TempDir()), strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// installed is a convoy that runs as it does in pods: a process for each role, with the token of its own service account and
// without a folder to write to.
type installed struct {
	t         *testing.T
	at        site
	processes map[string]*convoy // by name, such as watcher-2
}

// newInstalled starts a worker, an observer and two watchers of a hub that deploy/base is applied to.
func newInstalled(t *testing.T, at site) *installed {
	t.Helper()
	i := &installed{t: t, at: at, processes: map[string]*convoy{}}
	i.start("worker", "worker")
	i.start("observer", "observer")
	elect := []string{"--leader-elect", "--leader-elect-namespace=" + home}
	webhooks, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	i.start("watcher-1", "watcher", elect...)
	i.awaitLeader("")
	i.start("watcher-2", "watcher", append(elect, "--webhook-address="+webhooks)...)
	i.at.convoy, i.at.webhooks = i.processes["worker"], webhooks
	return i
}

func (i *installed) start(name, role string, flags ...string) {
	i.t.Helper()
	file := filepath.Join(i.at.local.Dir(), name+".kubeconfig")
	if err := os.WriteFile(file, i.kubeconfig("convoy-"+role), 0o600); err != nil {
		i.t.Fatal(err)
	}
	c, err := newConvoy(i.at.local.Hub.Name+"-"+name, append([]string{
		"--roles=" + role, "--kubeconfig=" + file, "--temporal-address=" + i.at.local.Temporal.Address,
	}, flags...)...)
	if err != nil {
		i.t.Fatal(err)
	}
	nowhere := filepath.Join(i.at.local.Dir(), "no-such-folder")
	c.env = []string{"TMPDIR=" + nowhere, "HOME=" + nowhere}
	i.processes[name] = c
	i.t.Cleanup(func() {
		for _, end := range []func() error{c.stop, c.keep, c.check} {
			if err := end(); err != nil {
				i.t.Error(err)
			}
		}
		if i.t.Failed() {
			i.t.Logf("--- log of %s:\n%s", name, c.tail())
		}
	})
	if err := c.start(i.t.Context()); err != nil {
		i.t.Fatal(err)
	}
}

// kubeconfig is one of the hub with the token of a service account.
func (i *installed) kubeconfig(account string) []byte {
	i.t.Helper()
	request := &authenticationv1.TokenRequest{}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: account}}
	if err := i.at.hub.SubResource("token").Create(i.t.Context(), of, request); err != nil {
		i.t.Fatal(err)
	}
	ca, err := i.at.local.Hub.CA()
	if err != nil {
		i.t.Fatal(err)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["hub"] = &clientcmdapi.Cluster{Server: i.at.local.Hub.Server, CertificateAuthorityData: ca}
	config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: request.Status.Token}
	config.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: account}
	config.CurrentContext = "hub"
	content, err := clientcmd.Write(*config)
	if err != nil {
		i.t.Fatal(err)
	}
	return content
}

// awaitLeader waits until a watcher leads that is not the former one, and returns which one does.
func (i *installed) awaitLeader(former string) (leader string) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(i.t.Context(), patience)
	defer cancel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "convoy-watcher"}}
	err := poll(ctx, func(ctx context.Context) error {
		if err := i.at.hub.Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		if leader = ptr.Deref(lease.Spec.HolderIdentity, ""); leader == "" || leader == former {
			return fmt.Errorf("the Lease is held by %q", leader)
		}
		return nil
	})
	if err != nil {
		i.t.Fatal("no watcher leads: ", err)
	}
	return leader
}

// handOver ends the watcher that leads, and waits until the other one does.
func (i *installed) handOver() {
	i.t.Helper()
	first := i.awaitLeader("")
	if err := i.processes["watcher-1"].stop(); err != nil {
		i.t.Fatal(err)
	}
	i.awaitLeader(first)
}

// right is one verb on one resource, such as "patch releases.core.convoy.kumodo.io/status", in a rule of a role.
type right string

func rightOf(verb, group, resource, subresource string) right {
	text := verb + " " + resource
	if group != "" {
		text += "." + group
	}
	if subresource != "" {
		text += "/" + subresource
	}
	return right(text)
}

// rightsOf are what the ClusterRole and the Role of a service account give it.
func rightsOf(s *scene, account string) []right {
	s.Helper()
	cluster, own := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account}}, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: account}}
	s.must(s.hub.Get(s.ctx, client.ObjectKeyFromObject(cluster), cluster))
	s.must(client.IgnoreNotFound(s.hub.Get(s.ctx, client.ObjectKeyFromObject(own), own)))
	var all []right
	for _, rule := range slices.Concat(cluster.Rules, own.Rules) {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					all = append(all, rightOf(verb, group, resource, subresource))
				}
			}
		}
	}
	return all
}

// used are the rights that a service account made use of, and the requests that were forbidden to it.
func used(s *scene, account string) (rights map[right]bool, forbidden []string) {
	s.Helper()
	rights = map[right]bool{}
	user := fmt.Sprintf("system:serviceaccount:%s:%s", home, account)
	for _, l := range s.recorded(s.local.Hub) {
		if l.User.Username != user {
			continue
		}
		if l.ResponseStatus.Code == 403 {
			forbidden = append(forbidden, l.String())
		}
		rights[rightOf(l.Verb, l.ObjectRef.APIGroup, l.ObjectRef.Resource, l.ObjectRef.Subresource)] = true
	}
	return rights, forbidden
}
