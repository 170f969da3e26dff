package docs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"kumodo.io/convoy/dev/env"
)

// publicPodinfo is where the pages get an application from. The tests serve a repository of the same layout.
const publicPodinfo = "https://github.com/stefanprodan/podinfo"

// publish commits two versions of an application to the git server, as that repository has them: a folder kustomize and tags.
func (w *world) publish(ctx context.Context) (*env.Repository, error) {
	r, err := w.Git.Repository(ctx, "podinfo")
	if err != nil {
		return nil, err
	}
	for _, version := range []string{"6.9.1", "6.9.2"} {
		files := map[string]string{}
		for _, name := range []string{"kustomization", "deployment", "service"} {
			text, err := os.ReadFile(filepath.Join("testdata", "podinfo", name+".yaml"))
			if err != nil {
				return nil, err
			}
			files["kustomize/"+name+".yaml"] = strings.ReplaceAll(string(text), "VERSION", version)
		}
		if _, err := r.Commit(ctx, env.Change{Branch: "master", Message: version, Files: files, Tag: version}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// environment is that of a reader with a folder as home: the programs, the hub and Temporal, and nobody's own settings.
func (w *world) environment(home, hub string) []string {
	return []string{
		"PATH=" + w.path + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "TMPDIR=" + os.TempDir(),
		"KUBECONFIG=" + hub, "TARGET=" + filepath.Join(home, w.Targets[0].Name+".kubeconfig"), "TEMPORAL_ADDRESS=" + w.Temporal.Address,
	}
}

// here replaces what pages name and what is elsewhere here: addresses, and the namespace default.
func (r *reader) here(text string) string {
	text = strings.NewReplacer(
		publicPodinfo, r.podinfo.URL, "localhost:8080", r.metrics, "localhost:9292", r.webhooks, "localhost:7233", r.Temporal.Address,
	).Replace(text)
	return strings.NewReplacer("/default/", "/"+r.namespace+"/", "namespace: default", "namespace: "+r.namespace).Replace(text)
}

// public is the other way around, for output.
func (r *reader) public(text string) string {
	return strings.NewReplacer(
		r.podinfo.URL, publicPodinfo, r.metrics, "localhost:8080", r.Temporal.Address, "localhost:7233", r.namespace, "default",
	).Replace(text)
}

// reader goes through a page, in a folder that holds what readers have: the kubeconfigs of their targets. The hub's has a
// namespace of the page, which pages call default.
type reader struct {
	*testing.T
	*world
	page      page
	dir       string
	namespace string
}

func newReader(t *testing.T, p page) *reader {
	t.Helper()
	r := &reader{T: t, world: shared, page: p, dir: t.TempDir(), namespace: "page-" + strings.ToLower(strings.TrimSuffix(filepath.Base(p.path), ".md"))}
	kubeconfigs := map[string][]byte{"west": r.Hub.Kubeconfig(), "target": r.Targets[0].Kubeconfig()}
	for _, target := range r.Targets {
		kubeconfigs[target.Name] = target.Kubeconfig()
	}
	for name, kubeconfig := range kubeconfigs {
		if err := os.WriteFile(filepath.Join(r.dir, name+".kubeconfig"), kubeconfig, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range map[string]string{"deploy": "deploy", "given.sh": "dev/docs/testdata/given.sh"} {
		if err := os.Symlink(filepath.Join(r.root, path), filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.enter()
	return r
}

// enter makes the namespace of the page, and a kubeconfig that has it.
func (r *reader) enter() {
	r.Helper()
	config, err := clientcmd.Load(r.Hub.Kubeconfig())
	if err != nil {
		r.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = r.namespace
	if err := clientcmd.WriteToFile(*config, filepath.Join(r.dir, "hub")); err != nil {
		r.Fatal(err)
	}
	if out, err := r.bash(r.Context(), "kubectl create namespace "+r.namespace); err != nil {
		r.Fatalf("%v: %s", err, out)
	}
}

// bash runs commands in the folder of the reader, and returns what they print.
func (r *reader) bash(ctx context.Context, commands string) (string, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", r.here(commands))
	cmd.Dir, cmd.Env, cmd.WaitDelay = r.dir, r.environment(r.dir, filepath.Join(r.dir, "hub")), time.Second
	out, err := cmd.CombinedOutput()
	return r.public(string(out)), err
}

// read goes through the blocks of the page.
func (r *reader) read() {
	r.Helper()
	for _, b := range r.page.blocks {
		if b.skip != "" {
			r.Logf("%s:%d: not run: %s", r.page.path, b.line, b.skip)
			continue
		}
		began := time.Now()
		err := r.do(b)
		if took := time.Since(began); took > 5*time.Second {
			r.Logf("%s:%d: took %.1f s", r.page.path, b.line, took.Seconds())
		}
		if err != nil {
			state, _ := r.bash(r.Context(), "kubectl get clusters,releases -o wide; convoy get releases -o yaml | grep -A3 'type: Ready' || true")
			r.Fatalf("%s:%d: %v\nThe hub says:\n%s", r.page.path, b.line, err, state)
		}
	}
}

// do does with a block what it is for.
func (r *reader) do(b block) error {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Minute)
	defer cancel()
	switch b.kind {
	case script, hidden:
		if out, err := r.bash(ctx, b.text); err != nil {
			return fmt.Errorf("%w: the commands print:\n%s", err, out)
		}
	case console:
		for _, e := range b.exchanges() {
			if err := r.converse(ctx, e); err != nil {
				return err
			}
		}
	case file:
		return os.WriteFile(filepath.Join(r.dir, b.name), []byte(r.here(b.text)), 0o600)
	case yaml:
		return r.validate(ctx, b.text)
	}
	return nil
}

// reading are the commands that change nothing. They are asked again until they print what the page shows: what a page
// shows as the next thing may come a moment later.
var reading = []string{
	"kubectl get ", "kubectl describe ", "convoy get ", "convoy describe ", "convoy why ", "convoy history ", "convoy diff ",
	"temporal workflow list ", "temporal workflow describe ", "curl ",
}

func isReading(command string) bool {
	for _, prefix := range reading {
		if strings.HasPrefix(command, prefix) {
			return true
		}
	}
	return false
}

// converse runs a command and compares what it prints with what the page shows. Where that is nothing, it has to end well.
func (r *reader) converse(ctx context.Context, e exchange) error {
	ask := func() error {
		out, err := r.bash(ctx, e.command)
		if _, ended := errors.AsType[*exec.ExitError](err); err != nil && !ended {
			return fmt.Errorf("%s: %w", e.command, err)
		}
		if err != nil && silent(e.output) {
			return fmt.Errorf("%s: %w; it prints:\n%s", e.command, err, out)
		}
		if err := shows(out, e.output); err != nil {
			return fmt.Errorf("%s: %w; it prints:\n%s", e.command, err, out)
		}
		return nil
	}
	if !isReading(e.command) {
		return ask()
	}
	ctx, cancel := context.WithTimeout(ctx, 100*time.Second)
	defer cancel()
	var last error
	_ = poll(ctx, func() error {
		if err := ask(); err == nil || ctx.Err() == nil {
			last = err
		}
		return last
	})
	return last
}
