package env

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Repository is one repository of a GitServer with a work tree to commit from. It is not for concurrent use. Pushes go to
// the repository's files, so they work while the server hangs or refuses.
type Repository struct {
	// URL is where the server serves the repository.
	URL string

	work string
}

// Change is one commit.
type Change struct {
	Branch  string            // default main; a new branch starts at the commit made last
	Message string            // default "change"
	Files   map[string]string // path -> content, written
	Delete  []string          // paths of files or folders, removed
	Tag     string            // when set, the commit is tagged so, and the tag moved when it exists
}

// Commit writes a change, commits it, even when it changes nothing, pushes it and returns the commit's digest.
func (r *Repository) Commit(ctx context.Context, change Change) (string, error) {
	branch, message := change.Branch, change.Message
	if branch == "" {
		branch = "main"
	}
	if message == "" {
		message = "change"
	}
	if err := r.checkout(ctx, branch); err != nil {
		return "", err
	}
	if err := r.write(change); err != nil {
		return "", err
	}
	steps := [][]string{{"add", "--all"}, {"commit", "--quiet", "--allow-empty", "--message", message}}
	if change.Tag != "" {
		steps = append(steps, []string{"tag", "--force", change.Tag})
	}
	steps = append(steps, []string{"push", "--quiet", "--force", "--tags", "origin", "HEAD:refs/heads/" + branch})
	for _, args := range steps {
		if _, err := r.Git(ctx, args...); err != nil {
			return "", err
		}
	}
	return r.Git(ctx, "rev-parse", "HEAD")
}

// checkout switches to a branch and creates it when it does not exist.
func (r *Repository) checkout(ctx context.Context, branch string) error {
	current, err := r.Git(ctx, "symbolic-ref", "--short", "HEAD")
	if err != nil || current == branch { // also true for the unborn first branch
		return err
	}
	if _, err := r.Git(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+branch); err != nil {
		_, err = r.Git(ctx, "checkout", "--quiet", "-b", branch)
		return err
	}
	_, err = r.Git(ctx, "checkout", "--quiet", branch)
	return err
}

func (r *Repository) write(change Change) error {
	for _, path := range change.Delete {
		full, err := r.path(path)
		if err != nil {
			return err
		}
		if err := os.RemoveAll(full); err != nil {
			return fmt.Errorf("delete %s: %w", path, err)
		}
	}
	for path, content := range change.Files {
		full, err := r.path(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	return nil
}

func (r *Repository) path(path string) (string, error) {
	if !filepath.IsLocal(path) {
		return "", fmt.Errorf("path %q leads out of the repository", path)
	}
	return filepath.Join(r.work, path), nil
}

// At is the URL of the repository on another server of the same repositories, whose base is given.
func (r *Repository) At(base string) string { return base + "/" + filepath.Base(r.URL) }

// Work is the folder of the work tree, for what Change cannot say, such as symbolic links.
func (r *Repository) Work() string { return r.work }

// Git runs a git command in the work tree and returns its trimmed output.
func (r *Repository) Git(ctx context.Context, args ...string) (string, error) {
	return git(ctx, r.work, args...)
}

func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...) //nolint:gosec // the callers are tests and the demo
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, gitEnv...)
	// git talks to servers through a child of its own, which must end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}
