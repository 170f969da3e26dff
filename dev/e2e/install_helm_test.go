package e2e

import (
	"log/slog"
	"maps"
	"slices"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// helm is what the helm command does, on the hub of a scene.
type helm struct {
	*scene
	config *action.Configuration
	chart  *helmchart.Chart
}

func newHelm(s *scene) *helm {
	s.Helper()
	settings := cli.New()
	settings.KubeConfig = s.hubFile
	settings.SetNamespace(home)
	config := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	s.must(config.Init(settings.RESTClientGetter(), home, "secret"))
	c, err := loader.LoadDir(folder(s.T, "deploy", "chart"))
	s.must(err)
	return &helm{s, config, c}
}

func (h *helm) install(values map[string]any) error {
	i := action.NewInstall(h.config)
	i.ReleaseName, i.Namespace, i.CreateNamespace, i.WaitStrategy = "convoy", home, true, kube.HookOnlyStrategy
	i.TakeOwnership = true // of the CRDs, which the environment has applied
	_, err := i.RunWithContext(h.ctx, h.chart, values)
	return err
}

// upgrade keeps the values of before but those given.
func (h *helm) upgrade(values map[string]any) error {
	u := action.NewUpgrade(h.config)
	u.Namespace, u.ResetThenReuseValues, u.WaitStrategy = home, true, kube.HookOnlyStrategy
	_, err := u.RunWithContext(h.ctx, "convoy", h.chart, values)
	return err
}

func (h *helm) uninstall() error {
	u := action.NewUninstall(h.config)
	u.WaitStrategy = kube.HookOnlyStrategy
	_, err := u.Run("convoy")
	return err
}

// containerOf is what the Deployment of a role runs.
func (h *helm) containerOf(role string) (corev1.Container, corev1.PodSpec) {
	h.Helper()
	d := &appsv1.Deployment{}
	h.must(h.hub.Get(h.ctx, client.ObjectKey{Namespace: home, Name: "convoy-" + role}, d))
	return d.Spec.Template.Spec.Containers[0], d.Spec.Template.Spec
}

func TestTheChartIsInstalledUpgradedAndUninstalledByHelm(t *testing.T) {
	s := newCalmScene(t)
	t.Run("from the chart of before", func(t *testing.T) { // first, since both are of the same names
		before, inner := chartBefore(t), *s
		inner.T = t
		newHelm(&inner).upgradeFrom(before)
	})
	h := newHelm(s)
	s.must(h.install(map[string]any{"image": "convoy:1", "extraArgs": []any{"--verbose"}, "worker": map[string]any{"replicas": 3}}))
	for _, role := range []string{"watcher", "worker", "observer"} {
		if c, _ := h.containerOf(role); c.Image != "convoy:1" || !slices.Contains(c.Args, "--roles="+role) || !slices.Contains(c.Args, "--verbose") {
			t.Errorf("the %s runs %s %v", role, c.Image, c.Args)
		}
	}

	s.must(h.upgrade(map[string]any{
		"image": "convoy:2",
		"temporal": map[string]any{
			"address": "temporal.example:7233", "namespace": "hub-1", "apiKeySecret": map[string]any{"name": "temporal-key"},
			"tls": map[string]any{"enabled": true, "serverName": "temporal", "caSecret": map[string]any{"name": "temporal-ca"}, "clientSecret": map[string]any{"name": "temporal-client"}},
		},
		"watcher": map[string]any{"webhooks": map[string]any{"enabled": true}},
	}))
	worker, pod := h.containerOf("worker")
	if worker.Image != "convoy:2" || !slices.Contains(worker.Args, "--verbose") {
		t.Errorf("the worker runs %s %v", worker.Image, worker.Args)
	}
	settings := map[string]string{}
	for _, v := range worker.Env {
		settings[v.Name] = v.Value
		if v.ValueFrom != nil {
			settings[v.Name] = v.ValueFrom.SecretKeyRef.Name + "/" + v.ValueFrom.SecretKeyRef.Key
		}
	}
	if want := map[string]string{
		"TEMPORAL_ADDRESS": "temporal.example:7233", "TEMPORAL_NAMESPACE": "hub-1", "TEMPORAL_API_KEY": "temporal-key/api-key",
		"TEMPORAL_TLS": "true", "TEMPORAL_TLS_SERVER_NAME": "temporal", "TEMPORAL_TLS_SERVER_CA_CERT_PATH": "/etc/temporal/ca/ca.crt",
		"TEMPORAL_TLS_CLIENT_CERT_PATH": "/etc/temporal/client/tls.crt", "TEMPORAL_TLS_CLIENT_KEY_PATH": "/etc/temporal/client/tls.key",
	}; !maps.Equal(settings, want) {
		t.Errorf("settings of Temporal: %v", settings)
	}
	if len(worker.VolumeMounts) != 2 || len(pod.Volumes) != 2 || pod.Volumes[0].Secret.SecretName != "temporal-ca" || pod.Volumes[1].Secret.SecretName != "temporal-client" {
		t.Errorf("volumes: %v of %v", worker.VolumeMounts, pod.Volumes)
	}
	if watcher, _ := h.containerOf("watcher"); !slices.Contains(watcher.Args, "--webhook-address=:9292") {
		t.Errorf("the watcher runs %v", watcher.Args)
	}
	if !s.exists(s.hub, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "convoy-webhooks"}}) {
		t.Error("there is no Service for webhooks")
	}
	if err := h.upgrade(map[string]any{"replicas": 5}); err == nil {
		t.Error("a value that the chart does not know is taken")
	}

	r := s.release("app", "none", "none")
	s.must(h.uninstall())
	for _, o := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "convoy-watcher"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "convoy-worker"}},
		&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "convoy-observer"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "convoy-worker"}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "convoy-worker"}},
	} {
		s.awaitGone(s.hub, o)
	}
	if !s.exists(s.hub, r) || !r.DeletionTimestamp.IsZero() {
		t.Error("the Release went with convoy")
	}
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "releases.core.convoy.kumodo.io"}}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if !s.exists(s.hub, crd) || !crd.DeletionTimestamp.IsZero() || crd.Labels["app.kubernetes.io/managed-by"] != "Helm" {
		t.Errorf("the CRD, which Helm had taken over, is %+v", crd.ObjectMeta)
	}
}
