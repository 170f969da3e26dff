package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// NodeName is the name of the fake node of a control plane with Workloads.
const NodeName = "fake-0"

// ControlPlaneOptions says what a control plane consists of besides etcd and the API server.
type ControlPlaneOptions struct {
	// Name is what people see, also in the kubeconfig. Default: "hub", "target-1", "target-2", …
	Name string
	// Controllers adds kube-controller-manager: namespaces go away, owners' dependents are collected, service
	// accounts exist.
	Controllers bool
	// Workloads adds, to Controllers, the scheduler and one fake node that kwok plays: Deployments become ready and
	// Jobs complete, without containers.
	Workloads bool
	// Audit records each request, without its body, in AuditLog.
	Audit bool
}

// ControlPlane is one real Kubernetes API server with its etcd and, when asked for, its controllers. Its port,
// certificates and data stay the same through Stop, Kill and Start. Its methods are not meant to be called
// concurrently with each other, but for those that only read.
type ControlPlane struct {
	// Name is unique within the environment.
	Name string
	// Server is the API server's URL, https://127.0.0.1:<port>.
	Server string

	options   ControlPlaneOptions
	dir       string
	ports     []*port // API server, etcd
	authority *authority
	admin     []byte // kubeconfig
	config    *rest.Config
	core      group // etcd and API server
	clients   group // controller-manager, scheduler, kwok
}

// newControlPlane prepares the files of a control plane. It starts nothing.
func newControlPlane(e *Env, options ControlPlaneOptions) (*ControlPlane, error) {
	options.Controllers = options.Controllers || options.Workloads
	c := &ControlPlane{Name: options.Name, options: options, dir: filepath.Join(e.run, options.Name)}
	if err := os.MkdirAll(filepath.Join(c.dir, "pki"), 0o700); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", c.Name, err)
	}
	var err error
	if c.ports, err = reservePorts(2); err != nil {
		return nil, fmt.Errorf("prepare %s: %w", c.Name, err)
	}
	c.Server = "https://" + loopback(c.ports[0].number)
	if err := c.writeFiles(); err != nil {
		releasePorts(c.ports)
		return nil, fmt.Errorf("prepare %s: %w", c.Name, err)
	}
	c.core = group{e.process(c.Name, "etcd", c.etcdArgs()), e.process(c.Name, "kube-apiserver", c.apiServerArgs())}
	if options.Controllers {
		c.clients = append(c.clients, e.process(c.Name, "kube-controller-manager", c.controllerManagerArgs()))
	}
	if options.Workloads {
		c.clients = append(c.clients,
			e.process(c.Name, "kube-scheduler", c.schedulerArgs()), e.process(c.Name, "kwok", c.kwokArgs()))
	}
	return c, nil
}

// Start starts the control plane and returns when its API server is ready, when it has Controllers, when they work,
// and when it has Workloads, when its node takes pods. When it fails, nothing is left running. The context bounds
// the start only.
func (c *ControlPlane) Start(ctx context.Context) error {
	if err := c.start(ctx); err != nil {
		return errors.Join(err, c.Kill())
	}
	return nil
}

func (c *ControlPlane) start(ctx context.Context) error {
	for _, p := range c.core { // the API server itself waits for etcd
		if err := p.start(); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	if err := c.core[1].waitReady(ctx, c.ready); err != nil {
		return err
	}
	for _, p := range c.clients {
		if err := p.start(); err != nil {
			return err
		}
	}
	if c.options.Controllers {
		err := c.clients[0].waitReady(ctx, func(ctx context.Context) error {
			_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
			return err
		})
		if err != nil {
			return err
		}
	}
	if c.options.Workloads {
		return c.clients[2].waitReady(ctx, func(ctx context.Context) error { return ensureNode(ctx, client) })
	}
	return nil
}

// ready asks the API server whether it is ready.
func (c *ControlPlane) ready(ctx context.Context) error {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Server+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusOK {
		return nil
	}
	var waiting []string
	for line := range strings.Lines(string(body)) {
		if name, ok := strings.CutPrefix(line, "[-]"); ok {
			waiting = append(waiting, strings.Fields(name)[0])
		}
	}
	return fmt.Errorf("readyz answers %d, waiting for %s", response.StatusCode, strings.Join(waiting, ", "))
}

// ensureNode creates the fake node and returns nil once the scheduler may use it.
func ensureNode(ctx context.Context, client kubernetes.Interface) error {
	nodes := client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, NodeName, metav1.GetOptions{})
	if err != nil {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeName, Labels: map[string]string{
			corev1.LabelHostname: NodeName, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}}}
		if _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("node %s is still tainted", NodeName)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready", NodeName)
}

// Stop ends the control plane gracefully, its clients before the API server before etcd; what does not end within
// its grace period is killed. The data stays.
func (c *ControlPlane) Stop() error { return errors.Join(c.clients.stop(), c.core.stop()) }

// Kill ends the control plane at once. What the API server acknowledged is kept.
func (c *ControlPlane) Kill() error { return c.all().kill() }

// Freeze suspends the control plane: connections are accepted and stay open, and nothing answers.
func (c *ControlPlane) Freeze() error { return c.all().freeze() }

// Thaw lets a frozen control plane go on.
func (c *ControlPlane) Thaw() error { return c.all().thaw() }

// PIDs maps the name of each running program of the control plane to its process id.
func (c *ControlPlane) PIDs() map[string]int { return c.all().pids() }

func (c *ControlPlane) all() group {
	return append(append(group{}, c.core...), c.clients...)
}

// Kubeconfig is a kubeconfig, complete in itself, of an administrator (group system:masters).
func (c *ControlPlane) Kubeconfig() []byte { return append([]byte(nil), c.admin...) }

// Config is the administrator's client configuration, without client-side rate limits.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// KubeconfigFor is a kubeconfig, complete in itself, for a user in groups. The user has the rights that RBAC on this
// control plane gives; the group system:masters has all. The audit log tells users apart.
func (c *ControlPlane) KubeconfigFor(user string, groups ...string) ([]byte, error) {
	return c.KubeconfigUntil(time.Now().AddDate(1, 0, 0), user, groups...)
}

// KubeconfigUntil is KubeconfigFor with a client certificate that expires then, which may be in the past.
func (c *ControlPlane) KubeconfigUntil(expiry time.Time, user string, groups ...string) ([]byte, error) {
	certPEM, keyPEM, err := c.authority.issueClient(expiry, user, groups)
	if err != nil {
		return nil, err
	}
	ca, err := c.authority.pem()
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[c.Name] = &clientcmdapi.Cluster{Server: c.Server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: certPEM, ClientKeyData: keyPEM}
	config.Contexts[c.Name] = &clientcmdapi.Context{Cluster: c.Name, AuthInfo: user}
	config.CurrentContext = c.Name
	return clientcmd.Write(*config)
}

// CA is the PEM certificate of the authority that signed the API server's certificate.
func (c *ControlPlane) CA() ([]byte, error) { return c.authority.pem() }

// release gives the ports up. The control plane must be stopped and cannot be started again.
func (c *ControlPlane) release() { releasePorts(c.ports) }
