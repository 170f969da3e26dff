package cli

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

func TestNamesOfTheHubAreCompleted(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"app", "api", "web"} {
		r := newRelease(w.namespace)
		r.Name = name
		w.check(w.Create(w.ctx, r))
	}
	w.check(w.Create(w.ctx, &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "east"},
		Spec:       v1alpha1.ClusterSpec{ConnectionMode: "agent"},
	}))
	for line, want := range map[string]string{
		"get ":              "release cluster",
		"get c":             "cluster",
		"get releases ":     "api app web",
		"get cluster ":      "east",
		"get release/a":     "release/api release/app",
		"get node/":         "",
		"get release app x": "",
		"why cluster e":     "east",
		"describe cvr w":    "web",
		"history a":         "api app",
		"history ":          "release api app web",
		"approve release a": "api app",
		"rollback w":        "web",
		"suspend w":         "web",
		"resume w":          "web",
		"reconcile w":       "web",
		"diff w":            "web",
		"reprobe ":          "cluster east",
	} {
		if got := w.completed(line); got != want {
			t.Errorf("convoy %s is completed to %q, want %q", line, got, want)
		}
	}
}

// completed is what a shell is offered for a line, in one line.
func (w *world) completed(line string, flags ...string) string {
	w.Helper()
	words := strings.Split(line, " ")
	args := append([]string{"__complete", words[0], "--kubeconfig=" + w.file, "--namespace=" + w.namespace}, flags...)
	out, errOut := w.raw(append(args, words[1:]...)...)
	if strings.Contains(errOut, "rror") {
		w.Errorf("convoy %s: it says %s", line, errOut)
	}
	offered, directive, _ := strings.Cut(out, ":")
	if !strings.HasPrefix(directive, "4") { // no names of files
		w.Errorf("convoy %s: the directive is %s", line, directive)
	}
	return strings.Join(strings.Fields(offered), " ")
}

func TestACompletionIsSilentWhenTheHubIs(t *testing.T) {
	w := newWorld(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	w.check(err)
	defer silent.Close() //nolint:errcheck // it ends with the test
	w.file = filepath.Join(t.TempDir(), "silent")
	w.check(os.WriteFile(w.file, []byte("apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\nclusters: [{name: a, cluster: {server: 'http://"+silent.Addr().String()+"'}}]\n"), 0o600))
	began := time.Now()
	if got := w.completed("history "); got != "release" || time.Since(began) > 10*completionLimit {
		t.Errorf("after %s it offers %q", time.Since(began), got)
	}
	w.file = filepath.Join(t.TempDir(), "none")
	if got := w.completed("get releases "); got != "" {
		t.Errorf("without a kubeconfig it offers %q", got)
	}
}
