package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
)

// push tells the receiver of a push to a repository, signed with a key as GitHub does, and gives the status of the answer.
func (s *scene) push(repository *env.Repository, key string) int {
	s.Helper()
	body := fmt.Sprintf(`{"ref":"refs/heads/main","repository":{"clone_url":%q}}`, repository.URL)
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = mac.Write([]byte(body))
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, "http://"+s.webhooks+"/webhooks/"+s.ns+"/github", strings.NewReader(body))
	s.must(err)
	req.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	res, err := http.DefaultClient.Do(req)
	s.must(err)
	s.must(res.Body.Close())
	return res.StatusCode
}

func TestAPushThatIsSignedIsDeliveredAtOnceAndOneThatIsNotMakesNobodyLook(t *testing.T) {
	s := newScene(t)
	repository := s.repository()
	files := func(text string) env.Change {
		return env.Change{Files: map[string]string{"app/greeting.yaml": manifest("greeting", text)}}
	}
	s.commit(repository, files("first"))
	s.readyCluster("prod", beta)
	s.release("app", "prod", "", fromGitAt(v1alpha1.GitSource{URL: repository.URL, Path: "app"}, time.Hour))
	s.awaitDelivered("app")
	const key = secretSentinel + "-webhook"
	s.secret("convoy-webhook", map[string]string{"key": key})
	second := s.commit(repository, files("second"))
	looks := s.local.Git.Looks(repository)
	if status := s.push(repository, key+"-wrong"); status != http.StatusUnauthorized {
		t.Errorf("a wrong signature: %d", status)
	}
	if n := s.local.Git.Looks(repository); n != looks {
		t.Errorf("a push with a wrong signature cost %d looks", n-looks)
	}
	if status := s.push(repository, key); status != http.StatusAccepted {
		t.Fatalf("a push: %d", status)
	}
	s.within(30*time.Second, "the push is delivered", func(context.Context) error {
		if r := s.getRelease("app"); r.Status.Source.Revision != "main@sha1:"+second {
			return fmt.Errorf("it is %s", r.Status.Source.Revision)
		}
		return nil
	})
}
