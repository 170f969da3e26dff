package env

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

func TestACommitCanBeClonedByBranchTagAndDigest(t *testing.T) {
	repository := newRepository(t)
	first := commit(t, repository, Change{Files: map[string]string{"a/b.yaml": "one", "c.yaml": "c"}, Tag: "v1.0.0"})
	commit(t, repository, Change{Files: map[string]string{"a/b.yaml": "two"}, Delete: []string{"c.yaml"}})
	commit(t, repository, Change{Branch: "next", Files: map[string]string{"a/b.yaml": "three"}})
	back := commit(t, repository, Change{Message: "nothing changes"})

	for ref, want := range map[string]string{"main": "two", "next": "three", "v1.0.0": "one", first: "one", back: "two"} {
		dir := t.TempDir()
		for _, args := range [][]string{
			{"init", "--quiet", dir}, {"fetch", "--quiet", "--depth=1", repository.URL, ref}, {"checkout", "--quiet", "FETCH_HEAD"},
		} {
			if _, err := git(t.Context(), dir, args...); err != nil {
				t.Fatal(err)
			}
		}
		got, err := git(t.Context(), dir, "show", "HEAD:a/b.yaml")
		if err != nil || got != want {
			t.Errorf("at %s the file holds %q (%v), want %q", ref, got, err, want)
		}
		if files, err := filepath.Glob(filepath.Join(dir, "c.yaml")); err != nil || (len(files) == 1) != (want == "one") {
			t.Errorf("at %s the deleted file: %v, %v", ref, files, err)
		}
	}
}

func TestAHangingServerAnswersAfterResume(t *testing.T) {
	repository := newRepository(t)
	want := commit(t, repository, Change{})
	local.Git.Hang()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	_, err := git(ctx, t.TempDir(), "ls-remote", repository.URL, "main")
	cancel()
	if err == nil {
		t.Error("a hanging server answers")
	}
	before := local.Git.Requests()
	answer := make(chan string, 1)
	go func() {
		out, err := git(t.Context(), t.TempDir(), "ls-remote", repository.URL, "main")
		if err != nil {
			out = err.Error()
		}
		answer <- out
	}()
	eventually(t, "the request arrives", func(context.Context) error {
		if local.Git.Requests() == before {
			return errors.New("no request yet")
		}
		return nil
	})
	if err := local.Git.Resume(); err != nil {
		t.Fatal(err)
	}
	if got := <-answer; !strings.HasPrefix(got, want) {
		t.Errorf("the request that hung is answered %q, want %s", got, want)
	}
}

func TestARefusingServerComesBackOnItsPort(t *testing.T) {
	repository := newRepository(t)
	if err := local.Git.Refuse(); err != nil {
		t.Fatal(err)
	}
	want := commit(t, repository, Change{Message: "made while it refuses"})
	if _, err := git(t.Context(), t.TempDir(), "ls-remote", repository.URL); err == nil {
		t.Error("a refusing server answers")
	}
	if err := local.Git.Resume(); err != nil {
		t.Fatal(err)
	}
	got, err := git(t.Context(), t.TempDir(), "ls-remote", repository.URL, "main")
	if err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("after Resume the answer is %q (%v), want %s", got, err, want)
	}
}

func TestAServerWithLoginRefusesOthers(t *testing.T) {
	repository := newRepository(t)
	want := commit(t, repository, Change{})
	local.Git.RequireLogin("me", "secret")
	defer local.Git.RequireLogin("", "")
	if _, err := git(t.Context(), t.TempDir(), "ls-remote", repository.URL); err == nil {
		t.Error("a request without a login is answered")
	}
	withLogin := strings.Replace(repository.URL, "http://", "http://me:secret@", 1)
	got, err := git(t.Context(), t.TempDir(), "ls-remote", withLogin, "main")
	if err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("with the login the answer is %q (%v), want %s", got, err, want)
	}
}

func TestTheRepositoriesAreAlsoServedOverHTTPSToThoseWhoLogIn(t *testing.T) {
	repository := newRepository(t)
	want := commit(t, repository, Change{})
	base, authority, err := local.Git.ServeTLS("me", "secret")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	remote := func(url string) (string, error) {
		return git(t.Context(), t.TempDir(), "-c", "http.sslCAInfo="+file, "ls-remote", url, "main")
	}
	if _, err := remote(repository.At(base)); err == nil {
		t.Error("a request without a login is answered")
	}
	got, err := remote(strings.Replace(repository.At(base), "https://", "https://me:secret@", 1))
	if err != nil || !strings.HasPrefix(got, want) {
		t.Errorf("with the login the answer is %q (%v), want %s", got, err, want)
	}
}

func TestTheRepositoriesAreAlsoServedOverSSHToThePermittedKey(t *testing.T) {
	repository := newRepository(t)
	want := commit(t, repository, Change{})
	access, err := local.Git.ServeSSH()
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := newSSHKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, identity := range map[string][]byte{"permitted": access.Identity, "other": other} {
		signer, err := ssh.ParsePrivateKey(identity)
		if err != nil {
			t.Fatal(err)
		}
		hosts := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(hosts, access.KnownHosts, 0o600); err != nil {
			t.Fatal(err)
		}
		check, err := knownhosts.New(hosts)
		if err != nil {
			t.Fatal(err)
		}
		client, err := ssh.Dial("tcp", strings.TrimPrefix(access.URL, "ssh://git@"), &ssh.ClientConfig{
			User: "git", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: check,
		})
		if (err == nil) != (name == "permitted") {
			t.Errorf("with the %s key: %v", name, err)
		}
		if err != nil {
			continue
		}
		session, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		session.Stdin = strings.NewReader("0000")
		out, err := session.Output("git-upload-pack '" + strings.TrimPrefix(repository.At(""), "/") + "'")
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("the references are %q (%v)", out, err)
		}
		_ = client.Close()
	}
}

func TestARepositoryRefusesPathsThatLeadOut(t *testing.T) {
	if _, err := local.Git.Repository(t.Context(), "../out"); err == nil {
		t.Error("a repository outside the server's folder is accepted")
	}
	repository := newRepository(t)
	for _, change := range []Change{{Files: map[string]string{"../out": ""}}, {Delete: []string{"/etc"}}} {
		if _, err := repository.Commit(t.Context(), change); err == nil {
			t.Errorf("the change %v is accepted", change)
		}
	}
}

func newRepository(t *testing.T) *Repository {
	t.Helper()
	repository, err := local.Git.Repository(t.Context(), "repo-"+unique())
	if err != nil {
		t.Fatal(err)
	}
	return repository
}

func commit(t *testing.T, repository *Repository, change Change) string {
	t.Helper()
	digest, err := repository.Commit(t.Context(), change)
	if err != nil {
		t.Fatal(err)
	}
	return digest
}
