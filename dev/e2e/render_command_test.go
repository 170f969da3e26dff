package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// renderCommand runs the command render for a Release as kubectl prints it, and gives the digest that it reports.
func (s *scene) renderCommand(release string, args ...string) (digest, out string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), release+".yaml")
	var text strings.Builder
	for _, object := range []string{"releases/" + release, "clusters/prod", "configmaps/values", "secrets/more"} {
		printed, err := s.kubectl("get", object, "--namespace", s.ns, "--output", "yaml")
		s.must(err)
		text.WriteString("---\n" + printed + "\n")
	}
	s.must(os.WriteFile(file, []byte(text.String()), 0o600))
	cmd := exec.CommandContext(s.ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "convoy-race"), append([]string{"render", "--allow-loopback", "-f", file}, args...)...)
	cmd.Env = []string{"HOME=/nowhere"} // it needs neither a kubeconfig nor a Temporal
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		s.Fatalf("convoy render: %v\n%s", err, &stderr)
	}
	for line := range strings.Lines(stderr.String()) {
		if found, ok := strings.CutPrefix(strings.TrimSpace(line), "digest "); ok {
			digest = found
		}
	}
	return digest, stdout.String()
}

func TestTheRenderCommandGivesTheDigestThatTheWorkerGives(t *testing.T) {
	s := newScene(t)
	repository := s.repository()
	files := chart(nil)
	files.Files["plain/greeting.yaml"] = manifest("plain-greeting", "hello")
	files.Files["plain/big.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: big}\ndata: {n: \"12345678901234567890\"}\n"
	files.Files["overlay/kustomization.yaml"] = "namePrefix: kustomized-\nresources: [greeting.yaml]\n"
	files.Files["overlay/greeting.yaml"] = manifest("greeting", "hello")
	s.commit(repository, env.Change{Files: files.Files})
	s.configMap("values", map[string]string{"values.yaml": "text: from the hub"})
	s.secret("more", map[string]string{"values.yaml": "password: " + secretSentinel})
	s.readyCluster("prod", alpha, regional("eu-1"))
	mutate := mutations(v1alpha1.Mutation{
		Name: "region", Target: configMaps, CEL: "Object{metadata: Object.metadata{labels: {'region': cluster.region, 'release': string(release.name)}}}",
	})
	for folder, settings := range map[string]*v1alpha1.HelmRender{
		"plain": nil, "overlay": nil, "chart": {
			Values:     &runtime.RawExtension{Raw: []byte(`{"region":"from the Release"}`)},
			ValuesFrom: []v1alpha1.ValuesReference{{Kind: "ConfigMap", Name: "values"}, {Kind: "Secret", Name: "more"}},
		},
	} {
		s.release(folder, "prod", "", fromGit(repository, "main", folder), mutate, func(r *v1alpha1.Release) {
			r.Spec.TargetNamespace = fmt.Sprintf("%s-%s", s.ns, folder)
			r.Spec.Render.Helm = settings
		})
	}
	for _, release := range []string{"plain", "overlay", "chart"} {
		want := s.awaitDelivered(release).Status.RenderRef.Digest
		fetched, out := s.renderCommand(release)
		local, same := s.renderCommand(release, "--source", repository.Work())
		if fetched != want || local != want || out != same {
			t.Errorf("%s: the worker's digest is %s, that of the command %s, from a folder %s", release, want, fetched, local)
		}
		if !strings.Contains(out, "region: eu-1") {
			t.Errorf("%s: printed %s", release, out)
		}
	}
}
