package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"kumodo.io/convoy/dev/env"
)

// The application: a folder of a public repository, which comes as a Go module, so that nothing but Go's own tools is
// needed to get it, and the version and its checksum are fixed.
const (
	appModule = "github.com/stefanprodan/podinfo@v1.8.1-0.20250910200901-e86405a8674e"
	appSum    = "h1:ikpMMm5HbQT/1DehrPM+Lpwk3WAw/1Hg540eR+jsXus="
	appFolder = "kustomize"
)

// appFiles gets the application's folder: path in the repository -> content.
func appFiles(ctx context.Context, dir string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", appModule)
	cmd.Dir = dir // outside of any module
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || len(out) == 0) {
		if ok {
			return nil, fmt.Errorf("get %s: %w: %s", appModule, err, exit.Stderr)
		}
		return nil, fmt.Errorf("get %s: %w", appModule, err)
	}
	var module struct{ Dir, Sum, Error string }
	if err := json.Unmarshal(out, &module); err != nil {
		return nil, fmt.Errorf("get %s: %w", appModule, err)
	}
	if module.Error != "" {
		return nil, fmt.Errorf("get %s: %s", appModule, module.Error)
	}
	if module.Sum != appSum {
		return nil, fmt.Errorf("get %s: its checksum is %s, not %s", appModule, module.Sum, appSum)
	}
	entries, err := os.ReadDir(filepath.Join(module.Dir, appFolder))
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(module.Dir, appFolder, entry.Name()))
		if err != nil {
			return nil, err
		}
		files[path.Join(appFolder, entry.Name())] = string(content)
	}
	return files, nil
}

// commitApp makes a repository and commits the application to it. It returns the commit.
func (d *demo) commitApp(ctx context.Context) (commit string, err error) {
	stop := d.meanwhile("getting podinfo as a Go module")
	files, err := appFiles(ctx, d.env.Dir())
	stop()
	if err != nil {
		return "", err
	}
	if d.app, err = d.env.Git.Repository(ctx, "podinfo"); err != nil {
		return "", err
	}
	if commit, err = d.app.Commit(ctx, env.Change{Message: "podinfo as it is published", Files: files}); err != nil {
		return "", err
	}
	_, err = d.app.Git(ctx, "branch", "--quiet", "--set-upstream-to=origin/main") // so that a plain git push works
	return commit, err
}

// What the second commit does: the Deployment gets another color, and the HorizontalPodAutoscaler goes.
const (
	oldColor, newColor = "#34577c", "#7c5734"
	autoscalerFile     = "hpa.yaml"
	deploymentFile     = "deployment.yaml"
)

// commitChange commits the second version of the application.
func (d *demo) commitChange(ctx context.Context) (commit string, err error) {
	change := env.Change{
		Message: "Change the color, remove the autoscaler", Files: map[string]string{},
		Delete: []string{path.Join(appFolder, autoscalerFile)},
	}
	for name, replace := range map[string][2]string{
		deploymentFile:       {oldColor, newColor},
		"kustomization.yaml": {"  - " + autoscalerFile + "\n", ""},
	} {
		content, err := os.ReadFile(filepath.Join(d.app.Work(), appFolder, name))
		if err != nil {
			return "", err
		}
		if !strings.Contains(string(content), replace[0]) {
			return "", fmt.Errorf("%s does not hold %q", name, replace[0])
		}
		change.Files[path.Join(appFolder, name)] = strings.ReplaceAll(string(content), replace[0], replace[1])
	}
	return d.app.Commit(ctx, change)
}
