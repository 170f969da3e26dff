package env

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kwok/kustomize/stage/node/fast"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
)

// auditPolicy records each request once, when it is answered; a watch also when it begins.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
- level: Metadata
`

// writeFiles writes what the programs read: certificates, kubeconfigs and configuration.
func (c *ControlPlane) writeFiles() error {
	var err error
	if c.authority, err = newAuthority(c.Name); err != nil {
		return err
	}
	ca, err := c.authority.pem()
	if err != nil {
		return err
	}
	serverCert, serverKey, err := c.authority.issueServer()
	if err != nil {
		return err
	}
	_, accountKey, err := newKey()
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"pki/ca.crt": ca, "pki/server.crt": serverCert, "pki/server.key": serverKey, "pki/accounts.key": accountKey,
		"audit-policy.yaml": []byte(auditPolicy),
		"kwok.yaml": []byte(strings.Join([]string{
			fast.DefaultNodeInit,
			podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
		}, "\n---\n")),
	}
	// Each program has its own user, so that the audit log tells who did what.
	for file, user := range map[string]string{
		"admin": "admin", "kube-controller-manager": "system:kube-controller-manager",
		"kube-scheduler": "system:kube-scheduler", "kwok": "kwok",
	} {
		if files[file+".kubeconfig"], err = c.KubeconfigFor(user, "system:masters"); err != nil {
			return err
		}
	}
	for name, content := range files {
		if err := os.WriteFile(c.file(name), content, 0o600); err != nil {
			return err
		}
	}
	c.admin = files["admin.kubeconfig"]
	if c.config, err = clientcmd.RESTConfigFromKubeConfig(c.admin); err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	c.config.QPS = -1
	return nil
}

// file is the path of a file of the control plane.
func (c *ControlPlane) file(name string) string {
	return filepath.Join(c.dir, filepath.FromSlash(name))
}

func (c *ControlPlane) etcdURL() string { return "http://" + loopback(c.ports[1].number) }

func (c *ControlPlane) etcdArgs() []string {
	return []string{
		"--data-dir=" + c.file("etcd"),
		"--listen-client-urls=" + c.etcdURL(), "--advertise-client-urls=" + c.etcdURL(),
		"--listen-peer-urls=http://127.0.0.1:0", // a single member has no peers
		"--unsafe-no-fsync",                     // a power failure may cost the data; a kill does not
		"--log-level=warn",
	}
}

func (c *ControlPlane) apiServerArgs() []string {
	args := []string{
		"--etcd-servers=" + c.etcdURL(),
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.ports[0].number),
		"--endpoint-reconciler-type=none", // nothing inside the cluster looks for the API server
		"--tls-cert-file=" + c.file("pki/server.crt"), "--tls-private-key-file=" + c.file("pki/server.key"),
		"--client-ca-file=" + c.file("pki/ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file("pki/accounts.key"),
		"--service-account-signing-key-file=" + c.file("pki/accounts.key"),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=Node,RBAC", "--allow-privileged=true", "--profiling=false",
	}
	if !c.options.Controllers {
		// It refuses pods until their service account exists, and nobody would create it.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if c.options.Audit {
		args = append(args, "--audit-policy-file="+c.file("audit-policy.yaml"), "--audit-log-path="+c.AuditLog(),
			"--audit-log-maxsize=0") // one file, never rotated
	}
	return args
}

// clientArgs are common to the controller-manager and the scheduler: no election, so that an outage of the API server
// does not end them; no port of their own; no client-side rate limit that a test would feel.
func (c *ControlPlane) clientArgs(program string) []string {
	return []string{
		"--kubeconfig=" + c.file(program+".kubeconfig"), "--leader-elect=false", "--secure-port=0",
		"--kube-api-qps=1000", "--kube-api-burst=1000", "--profiling=false",
	}
}

func (c *ControlPlane) controllerManagerArgs() []string {
	return append(c.clientArgs("kube-controller-manager"),
		"--service-account-private-key-file="+c.file("pki/accounts.key"), "--root-ca-file="+c.file("pki/ca.crt"),
		"--node-monitor-grace-period=87600h", // a fake node sends no heartbeats
	)
}

func (c *ControlPlane) schedulerArgs() []string { return c.clientArgs("kube-scheduler") }

func (c *ControlPlane) kwokArgs() []string {
	return []string{
		"--kubeconfig=" + c.file("kwok.kubeconfig"), "--config=" + c.file("kwok.yaml"),
		"--manage-all-nodes=true", "--node-ip=127.0.0.1", "--node-lease-duration-seconds=0",
	}
}
