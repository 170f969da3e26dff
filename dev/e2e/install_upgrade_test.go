package e2e

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	helmchart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// chartBefore is the chart as it was before its last change. A clone that does not hold that skips the test.
func chartBefore(t *testing.T) *helmchart.Chart {
	t.Helper()
	git := func(args ...string) []byte {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", folder(t)}, args...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("the history does not hold the chart of before: git %s: %v", strings.Join(args, " "), err)
		}
		return bytes.TrimSpace(out)
	}
	base := "HEAD"
	if len(git("status", "--porcelain", "--", "deploy/chart")) == 0 {
		last := string(git("log", "-1", "--format=%H", "--", "deploy/chart"))
		base = string(git("rev-parse", "--verify", "--quiet", last+"^"))
	}
	var files []*archive.BufferedFile
	// The path within the commit is that from its root, whatever the current folder is.
	packed := tar.NewReader(bytes.NewReader(git("archive", "--format=tar", base+":deploy/chart")))
	for {
		entry, err := packed.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if entry.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(packed)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, &archive.BufferedFile{Name: entry.Name, Data: content})
	}
	c, err := loader.LoadFiles(files)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// upgradeFrom installs another chart, upgrades it to that of this tree, and uninstalls it.
func (h *helm) upgradeFrom(before *helmchart.Chart) {
	h.Helper()
	now := h.chart
	h.chart = before
	h.must(h.install(map[string]any{"image": "convoy:before", "extraArgs": []any{"--verbose"}}))
	if worker, _ := h.containerOf("worker"); worker.Image != "convoy:before" {
		h.Errorf("before, the worker runs %s", worker.Image)
	}
	h.chart = now
	h.must(h.upgrade(map[string]any{"image": "convoy:now"}))
	for _, role := range []string{"watcher", "worker", "observer"} {
		if c, _ := h.containerOf(role); c.Image != "convoy:now" || !slices.Contains(c.Args, "--verbose") {
			h.Errorf("after the upgrade, the %s runs %s %v", role, c.Image, c.Args)
		}
	}
	h.must(h.uninstall())
	for _, o := range []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "convoy-worker"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "convoy-worker"}},
	} {
		h.awaitGone(h.hub, o)
	}
}
