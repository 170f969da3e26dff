package golden

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// module is a Go module that carries manifests. The sum is that of the module's content, so its bytes cannot change.
type module struct{ version, sum string }

var (
	podinfo = module{"github.com/stefanprodan/podinfo@v1.8.1-0.20250910200901-e86405a8674e", "h1:ikpMMm5HbQT/1DehrPM+Lpwk3WAw/1Hg540eR+jsXus="}
	// Its chart has a Chart.yaml made of a template when it is released.
	certManager        = module{"github.com/cert-manager/cert-manager@v1.20.0", "h1:czZamsFJ1YdKPhpv+SopJZN9t3W68vQBnFYUevSHGqY="}
	prometheusOperator = module{"github.com/prometheus-operator/prometheus-operator@v0.92.1", "h1:rHWuFo6SVya4FBSCNg2DCzyc4xAv54zk3eDTzp5mQZc="}
	gatewayAPI         = module{"sigs.k8s.io/gateway-api@v1.6.3", "h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc="}
)

var (
	downloads   = map[module]string{}
	downloading sync.Mutex
)

// dir is the folder of a module, which is downloaded when it is not there.
func (m module) dir(t *testing.T) string {
	t.Helper()
	downloading.Lock()
	defer downloading.Unlock()
	if dir, ok := downloads[m]; ok {
		return dir
	}
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", m.version)
	cmd.Dir = t.TempDir() // outside of every module
	out, err := cmd.Output()
	var got struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &got); jsonErr != nil || err != nil || got.Error != "" {
		t.Fatalf("%s cannot be downloaded; is the Go module proxy reachable? %v %v %s", m.version, err, jsonErr, got.Error)
	}
	if got.Sum != m.sum {
		t.Fatalf("%s has the sum %s, want %s", m.version, got.Sum, m.sum)
	}
	downloads[m] = got.Dir
	return got.Dir
}

// files are those of a folder of a module, by slash path.
func (m module) files(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	root := os.DirFS(filepath.Join(m.dir(t), folder))
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		out[name], err = fs.ReadFile(root, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// only keeps some files.
func only(files map[string][]byte, names ...string) map[string][]byte {
	out := map[string][]byte{}
	for _, name := range names {
		out[name] = files[name]
	}
	return out
}

// certManagerChart is the chart as it is released.
func certManagerChart(t *testing.T) map[string][]byte {
	t.Helper()
	files := certManager.files(t, "deploy/charts/cert-manager")
	text := strings.NewReplacer("{{IS_PRERELEASE}}", "false", "v0.0.0", "v1.20.0").Replace(string(files["Chart.template.yaml"]))
	files["Chart.yaml"] = []byte(text)
	delete(files, "Chart.template.yaml")
	return files
}
