package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// fromGitAt makes a Release take a git source that is looked at each interval.
func fromGitAt(git v1alpha1.GitSource, interval time.Duration) func(*v1alpha1.Release) {
	return func(rel *v1alpha1.Release) {
		rel.Spec.Source = v1alpha1.Source{Git: &git}
		rel.Spec.Source.PollInterval.Duration = interval
	}
}

// awaitSource waits until the condition SourceReady of a Release is false and says all of the words.
func (s *scene) awaitSource(release, reason string, words ...string) {
	s.Helper()
	s.eventually("the source is told as "+reason+": "+strings.Join(words, ", "), func(context.Context) error {
		r := s.getRelease(release)
		if err := s.compare(r.Status.Conditions, v1alpha1.ConditionSourceReady, metav1.ConditionFalse, reason, r.Generation); err != nil {
			return err
		}
		for _, c := range r.Status.Conditions {
			for _, word := range words {
				if c.Type == v1alpha1.ConditionSourceReady && !strings.Contains(c.Message, word) {
					return fmt.Errorf("it says %q", c.Message)
				}
			}
		}
		return nil
	})
}

func TestAPrivateRepositoryIsDeliveredOverHTTPSAsSoonAsItsSecretIsRight(t *testing.T) {
	s := newScene(t)
	const password = secretSentinel + "-git"
	base, authority, err := s.local.Git.ServeTLS("robot", password)
	s.must(err)
	repository := s.repository()
	first := s.commit(repository, env.Change{Files: map[string]string{"apps/greeting.yaml": manifest("greeting", "private")}})
	s.readyCluster("prod", beta)
	git := v1alpha1.GitSource{URL: repository.At(base), Path: "apps", SecretRef: &v1alpha1.SourceSecretRef{Name: "git"}}
	s.release("app", "prod", "", fromGitAt(git, time.Hour)) // what follows is told by changes of the Secret alone
	s.awaitSource("app", v1alpha1.ReasonSourceFailed, "Secret git does not exist")

	secret := s.secret("git", map[string]string{"username": "robot", "password": password, "ca.crt": string(authority)})
	change(s, secret, func(o *corev1.Secret) { o.Data["password"] = []byte(secretSentinel + "-wrong") })
	s.awaitSource("app", v1alpha1.ReasonSourceFailed, "refuses the credentials of Secret git")
	change(s, secret, func(o *corev1.Secret) {
		o.Data = map[string][]byte{"username": []byte("robot"), "password": []byte(password)}
	})
	s.awaitSource("app", v1alpha1.ReasonSourceFailed, "has a certificate that is not trusted")
	change(s, secret, func(o *corev1.Secret) { o.Data["ca.crt"] = authority })
	r := s.awaitDelivered("app")
	if got, want := r.Status.Source.Revision, "main@sha1:"+first; got != want {
		t.Errorf("revision %s, want %s", got, want)
	}
	s.awaitText(time.Second, s.on(beta), "greeting", "private")
	s.wantGood(r)
}

func TestTheNewestVersionInARangeIsDeliveredOverSSHAndADeletedTagPrunesNothing(t *testing.T) {
	s := newScene(t)
	access, err := s.local.Git.ServeSSH()
	s.must(err)
	repository := s.repository()
	tagged := func(tag, text string) string {
		return s.commit(repository, env.Change{Tag: tag, Files: map[string]string{"greeting.yaml": manifest("greeting", text)}})
	}
	first := tagged("v1.0.0", "one")
	tagged("v2.0.0", "out of the range")
	s.readyCluster("prod", beta)
	s.secret("git", map[string]string{"identity": string(access.Identity), "known_hosts": string(access.KnownHosts)})
	git := v1alpha1.GitSource{
		URL: repository.At(access.URL), Ref: v1alpha1.GitRef{SemVer: "1.x"}, SecretRef: &v1alpha1.SourceSecretRef{Name: "git"},
	}
	s.release("site", "prod", "", fromGitAt(git, 5*time.Second))
	s.awaitRevision("site", "v1.0.0@sha1:"+first)
	on := s.on(beta)
	second := tagged("v1.1.0", "two")
	s.awaitRevision("site", "v1.1.0@sha1:"+second)
	moved := tagged("v1.1.0", "three")
	s.awaitRevision("site", "v1.1.0@sha1:"+moved)
	s.awaitText(patience, on, "greeting", "three")

	for _, tag := range []string{"v1.0.0", "v1.1.0"} {
		_, err := repository.Git(s.ctx, "push", "--quiet", "--delete", "origin", tag)
		s.must(err)
	}
	s.awaitSource("site", v1alpha1.ReasonSourceNotFound, "has no tag in the range 1.x", "what was delivered stays")
	s.awaitText(time.Second, on, "greeting", "three")
}

func TestASecretThatAClusterConnectsWithOpensNoSource(t *testing.T) {
	s := newScene(t)
	cluster := s.readyCluster("prod", beta)
	name := cluster.Spec.Agentless.Auth.Kubeconfig.SecretRef.Name
	git := v1alpha1.GitSource{URL: "https://127.0.0.1:1/app.git", SecretRef: &v1alpha1.SourceSecretRef{Name: name}}
	s.release("app", "prod", "", fromGitAt(git, time.Hour))
	s.awaitSource("app", v1alpha1.ReasonSourceFailed, "Secret "+name+" is the one that Cluster prod connects with")
}

func TestASourceWithTwoReferencesOrAPasswordInItsURLIsRefusedByTheHub(t *testing.T) {
	s := newScene(t)
	s.configMap("greeting", map[string]string{"greeting.yaml": manifest("greeting", "hello")})
	r := s.release("app", "prod", "greeting")
	for url, ref := range map[string]v1alpha1.GitRef{
		"https://example.test/a":            {Branch: "main", Tag: "v1"},
		"https://u:p@example.test/a":        {},
		"ssh://git:secret@example.test/a":   {},
		"ftp://example.test/a":              {},
		"git@example.test:a/b.git":          {Commit: "abc"},
		"https://example.test/another/name": {Name: "main"},
	} {
		wrong := r.DeepCopy()
		wrong.ObjectMeta = s.meta("wrong")
		wrong.Spec.Source = v1alpha1.Source{Git: &v1alpha1.GitSource{URL: url, Ref: ref}}
		if err := s.hub.Create(s.ctx, wrong, client.DryRunAll); err == nil {
			t.Errorf("the hub takes %s with %+v", url, ref)
		}
	}
	for i, url := range []string{"git@example.test:a/b.git", "ssh://git@example.test:2222/~/a.git", "example.test:/srv/a", "file:///srv/a", "git@[::1]:a", "https://example.test/a"} {
		right := r.DeepCopy()
		right.ObjectMeta = s.meta(fmt.Sprintf("right-%d", i))
		right.Spec.Source = v1alpha1.Source{Git: &v1alpha1.GitSource{URL: url}}
		if err := s.hub.Create(s.ctx, right, client.DryRunAll); err != nil {
			t.Errorf("the hub refuses %s: %v", url, err)
		}
	}
}
