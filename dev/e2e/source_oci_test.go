package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/repo/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// from makes a Release take a source that is asked each few seconds.
func from(src v1alpha1.Source) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) {
		r.Spec.Source = src
		r.Spec.Source.PollInterval.Duration = 5 * time.Second
	}
}

const registryPassword = secretSentinel + "-registry"

// registry starts a registry, and writes the Secret "registry" that opens it.
func (s *scene) registry() *env.Registry {
	s.Helper()
	r, err := env.StartRegistry(s.TempDir(), "robot", registryPassword)
	s.must(err)
	s.Cleanup(func() { s.must(r.Close()) })
	login := base64.StdEncoding.EncodeToString([]byte("robot:" + registryPassword))
	s.secret("registry", map[string]string{
		corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, login), "ca.crt": string(r.Authority),
	})
	return r
}

func TestAnArtifactOfAPrivateRegistryIsDeliveredAndAMovedTagFollowed(t *testing.T) {
	s := newScene(t)
	registry := s.registry()
	push := func(tag, text string) string {
		digest, err := registry.Push(s.ctx, s.ns+"/app", tag, map[string]string{
			"base/greeting.yaml": manifest("greeting", text), "base/kustomization.yaml": "resources: [greeting.yaml]",
			"prod/kustomization.yaml": "resources: [../base]\nnamePrefix: prod-\n",
		})
		s.must(err)
		return tag + "@" + digest
	}
	first := push("stable", "first")
	s.readyCluster("prod", beta)
	src := v1alpha1.OCISource{URL: "oci://" + registry.Host + "/" + s.ns + "/app", Ref: v1alpha1.OCIRef{Tag: "stable"}, Path: "prod", SecretRef: &v1alpha1.SourceSecretRef{Name: "registry"}}
	s.release("app", "prod", "", from(v1alpha1.Source{OCI: &src}))
	s.awaitRevision("app", first)
	on := s.on(beta)
	s.awaitText(time.Second, on, "prod-greeting", "first")
	s.awaitRevision("app", push("stable", "second"))
	s.awaitText(time.Second, on, "prod-greeting", "second")

	open := src
	open.SecretRef = nil
	s.release("stranger", "prod", "", from(v1alpha1.Source{OCI: &open}))
	s.awaitSource("stranger", v1alpha1.ReasonSourceFailed, "has a certificate that is not trusted")
	gone := src
	gone.Ref = v1alpha1.OCIRef{SemVer: ">=1"}
	s.release("gone", "prod", "", from(v1alpha1.Source{OCI: &gone}))
	s.awaitSource("gone", v1alpha1.ReasonSourceNotFound, "has no tag in the range >=1", "what was delivered stays")
	s.wantGood(s.awaitDelivered("app"))
}

// chartArchive packs the chart of the other tests, in a version.
func (s *scene) chartArchive(version string) []byte {
	s.Helper()
	files := map[string]string{}
	for name, text := range chart(map[string]string{"chart/Chart.yaml": "apiVersion: v2\nname: greeting\nversion: " + version + "\n"}).Files {
		files["greeting"+name[len("chart"):]] = text
	}
	files["greeting/templates/greeting.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\ndata: {text: '{{ .Chart.Version }} {{ .Values.text }}'}\n"
	archive, err := env.Archive(files)
	s.must(err)
	return archive
}

func TestAChartOfARegistryAndOneOfARepositoryAreDeliveredInTheNewestVersionOfTheirRange(t *testing.T) {
	s := newScene(t)
	registry := s.registry()
	folder := s.TempDir()
	var broken atomic.Bool
	repository := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, secretSentinel, http.StatusBadGateway)
			return
		}
		http.FileServer(http.Dir(folder)).ServeHTTP(w, r)
	}))
	t.Cleanup(repository.Close)
	publish := func(version string) {
		archive := s.chartArchive(version)
		_, err := registry.PushChart(s.ctx, s.ns+"/greeting", version, archive)
		s.must(err)
		s.must(os.WriteFile(filepath.Join(folder, "greeting-"+version+".tgz"), archive, 0o600))
		index, err := repo.IndexDirectory(folder, "")
		s.must(err)
		s.must(index.WriteFile(filepath.Join(folder, "index.yaml"), 0o600))
	}
	publish("1.0.0")
	publish("2.0.0")
	s.readyCluster("prod", beta)
	values := func(r *v1alpha1.Release) {
		r.Spec.TargetNamespace = s.ns + "-" + r.Name
		r.Spec.Render.Helm = &v1alpha1.HelmRender{Values: &runtime.RawExtension{Raw: []byte(`{"text":"hello"}`)}}
	}
	s.release("oci", "prod", "", values, from(v1alpha1.Source{Helm: &v1alpha1.HelmSource{
		URL: "oci://" + registry.Host + "/" + s.ns, Chart: "greeting", Version: "1.x", SecretRef: &v1alpha1.SourceSecretRef{Name: "registry"},
	}}))
	s.release("http", "prod", "", values, from(v1alpha1.Source{Helm: &v1alpha1.HelmSource{URL: repository.URL, Chart: "greeting", Version: "1.x"}}))
	on := s.on(beta)
	wantText := func(want string) {
		for _, release := range []string{"oci", "http"} {
			s.eventually(release+" delivers "+want, func(ctx context.Context) error {
				var cm corev1.ConfigMap
				if err := on.Get(ctx, client.ObjectKey{Namespace: s.ns + "-" + release, Name: "greeting"}, &cm); err != nil {
					return err
				}
				if got := cm.Data["text"]; got != want {
					return fmt.Errorf("it is %q", got)
				}
				return nil
			})
		}
	}
	wantText("1.0.0 hello")
	publish("1.1.0")
	wantText("1.1.0 hello")
	broken.Store(true)
	s.awaitSource("http", v1alpha1.ReasonSourceFailed, "answers with HTTP status 502")
	broken.Store(false)
	s.wantGood(s.awaitDelivered("http"))
	s.wantGood(s.awaitDelivered("oci"))
}
