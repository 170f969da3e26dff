package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
	"kumodo.io/convoy/internal/delivery"
)

// polled makes a Release take a folder of a repository and learn of its news by the poll alone: its own interval is an hour.
func polled(repository *env.Repository, folder string, every time.Duration) func(*v1alpha1.Release) {
	return func(r *v1alpha1.Release) {
		fromGitAt(v1alpha1.GitSource{URL: repository.URL, Path: folder, Ref: v1alpha1.GitRef{Branch: "stable"}}, every)(r)
	}
}

// sourceWorkflow is the ID of the workflow that polls the source of a Release.
func (s *scene) sourceWorkflow(release string) string {
	poll, _ := delivery.PollOf(s.ns, s.getRelease(release).Spec.Source)
	return delivery.SourceWorkflowID(poll.ID())
}

// looks counts the looks of the workflow of a source.
func (s *scene) looks(workflowID string) (n int) {
	s.Helper()
	for _, e := range s.history(workflowID) {
		if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "LookSource" {
			n++
		}
	}
	return n
}

func TestOneLookAnIntervalTellsAllReleasesOfARepositoryOfItsNews(t *testing.T) {
	s := newScene(t)
	const n = 12
	repository := s.repository()
	files := func(text string) env.Change {
		c := env.Change{Branch: "stable", Files: map[string]string{}}
		for i := range n {
			c.Files[fmt.Sprintf("app-%d/greeting.yaml", i)] = manifest(fmt.Sprintf("greeting-%d", i), text)
		}
		return c
	}
	first := s.commit(repository, files("first"))
	s.readyCluster("prod", beta)
	name := func(i int) string { return fmt.Sprintf("app-%d", i) }
	for i := range n {
		s.release(name(i), "prod", "", polled(repository, name(i), 5*time.Second))
	}
	for i := range n {
		s.awaitRevision(name(i), "stable@sha1:"+first)
	}
	workflow := s.sourceWorkflow("app-0")
	if all := s.local.Git.Looks(repository); all > n+s.looks(workflow) {
		t.Errorf("%d Releases looked %d times when they began", n, all)
	}
	before, looked := s.local.Git.Looks(repository), s.looks(workflow)
	s.eventually("three intervals have passed", func(context.Context) error {
		if passed := s.looks(workflow) - looked; passed < 3 {
			return fmt.Errorf("%d looks", passed)
		}
		return nil
	})
	second := s.commit(repository, files("second"))
	for i := range n {
		s.awaitRevision(name(i), "stable@sha1:"+second)
	}
	s.awaitText(time.Second, s.on(beta), "greeting-7", "second")
	// The workflow counts a look when it is scheduled, the server when it arrives: one may be between the two.
	if server, polls := s.local.Git.Looks(repository)-before, s.looks(workflow)-looked; server > polls+1 {
		t.Errorf("%d Releases cost %d looks at the repository, their poll only %d of them", n, server, polls)
	}

	_, err := repository.Git(s.ctx, "push", "--quiet", "--delete", "origin", "stable")
	s.must(err)
	for i := range n {
		s.awaitSource(name(i), v1alpha1.ReasonSourceNotFound, "what was delivered stays")
	}
	s.awaitText(time.Second, s.on(beta), "greeting-7", "second")
	_, err = repository.Git(s.ctx, "push", "--quiet", "origin", "HEAD:refs/heads/stable")
	s.must(err)
	for i := range n {
		s.eventually("the source is found again", func(context.Context) error {
			r := s.getRelease(name(i))
			return s.compare(r.Status.Conditions, v1alpha1.ConditionSourceReady, metav1.ConditionTrue, v1alpha1.ReasonFetched, r.Generation)
		})
	}
	s.save("source-polled", workflow)
	for i := range n {
		s.remove(&v1alpha1.Release{ObjectMeta: s.meta(name(i))})
	}
	s.awaitEnd(workflow)
}

func TestASourceThatIsLookedAtOnRequestTellsAtOnce(t *testing.T) {
	s := newScene(t)
	repository := s.repository()
	s.commit(repository, env.Change{Branch: "stable", Files: map[string]string{"app/greeting.yaml": manifest("greeting", "first")}})
	s.readyCluster("prod", beta)
	s.release("app", "prod", "", polled(repository, "app", time.Hour))
	s.awaitDelivered("app")
	second := s.commit(repository, env.Change{Branch: "stable", Files: map[string]string{"app/greeting.yaml": manifest("greeting", "second")}})
	_, err := s.temporalCommand("workflow", "signal", "--workflow-id", s.sourceWorkflow("app"), "--name", delivery.SignalLook)
	s.must(err)
	s.within(30*time.Second, "the push is delivered", func(context.Context) error {
		if r := s.getRelease("app"); r.Status.Source.Revision != "stable@sha1:"+second {
			return fmt.Errorf("it is %s", r.Status.Source.Revision)
		}
		return nil
	})
}

// TestASourceIsLookedAtAgainWhateverHappensToItsPoll: nobody touches the Release, and its own interval is an hour.
func TestASourceIsLookedAtAgainWhateverHappensToItsPoll(t *testing.T) {
	s := newSerialScene(t)
	repository := s.repository()
	push := func(text string) string {
		return s.commit(repository, env.Change{Branch: "stable", Files: map[string]string{"app/greeting.yaml": manifest("greeting", text)}})
	}
	push("first")
	s.readyCluster("prod", beta)
	s.release("app", "prod", "", polled(repository, "app", 5*time.Second))
	s.awaitDelivered("app")
	for _, f := range disturbances {
		if !strings.Contains(f.name, "convoy") && !strings.Contains(f.name, "Temporal") {
			continue
		}
		began := time.Now()
		revision := push(f.name)
		f.do(&disturbed{scene: s})
		s.awaitRevision("app", "stable@sha1:"+revision)
		s.awaitText(patience, s.on(beta), "greeting", f.name)
		t.Logf("survived %s, in %s", f.name, time.Since(began).Round(time.Second/10))
	}
	workflow := s.sourceWorkflow("app")
	s.eventually("the source is polled", func(ctx context.Context) error { // Temporal may have been emptied a moment ago
		_, err := temporal.DescribeWorkflow(ctx, workflow, "")
		return err
	})
	s.remove(&v1alpha1.Release{ObjectMeta: s.meta("app")})
	s.awaitEnd(workflow)
}
