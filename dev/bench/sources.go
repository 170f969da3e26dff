package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/dev/env"
	"kumodo.io/convoy/internal/delivery"
)

// Names of the phases of the suite of sources, in the figures that programs read.
const (
	phaseSourcesCold = "SourcesCold"
	phaseSourcesRest = "SourcesAtRest"
	phaseSourcesPush = "SourcesPush"
)

// pollsWatched is how many intervals of the poll the phase at rest lasts.
const pollsWatched = 3

// sourcesSuite measures what many Releases of one repository ask of its server. Each takes a folder of its own.
type sourcesSuite struct {
	*releasesSuite
	repository *env.Repository
	commit     string // what the Releases are to deliver
	looked     int    // looks at the repository before the phase

	perInterval float64 // looks at the repository at rest
}

func newSourcesSuite(w *world) suite {
	s := &sourcesSuite{releasesSuite: &releasesSuite{world: w, names: numbered("release", w.N)}}
	return suite{
		name: suiteSources, about: fmt.Sprintf("%d Releases of one repository, polled every %s", w.N, w.Poll), unit: "Release", n: w.N,
		sample: workflowIDs(delivery.ReleaseWorkflowID, spread(s.names, sampleSize)), furnish: s.furnish,
		phases: []phase{
			{
				name: phaseSourcesCold, title: "first delivery, from the first Release created to all Ready",
				prepare: s.note, do: s.deliver, rest: s.resting, check: s.checkCold,
			},
			{
				name: phaseSourcesRest, title: fmt.Sprintf("nothing changes, from a look of the poll to the end of %d intervals", pollsWatched),
				prepare: s.afterTold, do: s.intervals, check: s.checkRest,
				budgets: map[string]float64{rowHubWrites: 0, rowHubEvents: 0, rowTargetReads: 0, rowTargetWrites: 0, rowActivities: 0, rowEvents: 0},
			},
			{
				name: phaseSourcesPush, title: "a push, until all Releases have delivered it",
				prepare: s.note, do: s.push, rest: s.resting, check: s.checkPush,
			},
		},
	}
}

// furnish writes the Cluster, which it awaits, and the repository.
func (s *sourcesSuite) furnish(ctx context.Context) (err error) {
	if err := s.furnishCluster(ctx); err != nil {
		return err
	}
	if s.repository, err = s.local.Git.Repository(ctx, "fleet"); err != nil {
		return err
	}
	return s.write(ctx, "first")
}

// write commits a text for all Releases.
func (s *sourcesSuite) write(ctx context.Context, text string) (err error) {
	files := map[string]string{}
	for _, name := range s.names {
		for file, content := range source(name, s.M, text).Data {
			files[name+"/"+file] = content
		}
	}
	s.commit, err = s.repository.Commit(ctx, env.Change{Files: files})
	return err
}

// note remembers how often the repository was looked at.
func (s *sourcesSuite) note(context.Context) error {
	s.looked = s.looks()
	return nil
}

func (s *sourcesSuite) looks() int { return s.local.Git.Looks(s.repository) }

func (s *sourcesSuite) deliver(ctx context.Context) error {
	err := each(ctx, s.names, func(ctx context.Context, name string) error {
		r := release(name, "target")
		r.Spec.Source = v1alpha1.Source{Git: &v1alpha1.GitSource{URL: s.repository.URL, Path: name, Ref: v1alpha1.GitRef{Branch: "main"}}}
		r.Spec.Source.PollInterval.Duration = s.Poll
		return s.hub.Create(ctx, r)
	})
	if err != nil {
		return err
	}
	return s.releases.await(ctx, s.names, s.upToDate)
}

// upToDate reports whether a Release has delivered the newest commit.
func (s *sourcesSuite) upToDate(r *v1alpha1.Release) bool {
	return delivered(r) && r.Status.Source != nil && strings.HasSuffix(r.Status.Source.Revision, s.commit)
}

// afterTold waits until the Releases have heard what the poll found, for one may have begun after the look before.
func (s *sourcesSuite) afterTold(ctx context.Context) error {
	if err := s.nextLook(ctx); err != nil {
		return err
	}
	return s.resting(ctx)
}

// nextLook waits until the poll looks.
func (s *sourcesSuite) nextLook(ctx context.Context) error {
	before := s.looks()
	return poll(ctx, 20*time.Millisecond, func() error {
		if s.looks() == before {
			return fmt.Errorf("nobody looks at the repository, which is polled every %s", s.Poll)
		}
		return nil
	})
}

// intervals counts the looks from one on, until the last of the intervals is over and the next is not: each is up to a
// tenth shorter or longer. What the bench itself does before and after takes too long to be counted with them.
func (s *sourcesSuite) intervals(ctx context.Context) error {
	if err := s.nextLook(ctx); err != nil {
		return err
	}
	before := s.looks()
	err := pause(ctx, pollsWatched*s.Poll+s.Poll*4/10)
	s.perInterval = float64(s.looks()-before) / pollsWatched
	return err
}

func (s *sourcesSuite) push(ctx context.Context) error {
	if err := s.write(ctx, "second"); err != nil {
		return err
	}
	return s.releases.await(ctx, s.names, s.upToDate)
}

func (s *sourcesSuite) checkCold(ctx context.Context, _ figures) ([]fact, error) {
	return []fact{{Name: "looks at the repository", Value: float64(s.looks() - s.looked)}}, s.onTarget(ctx, s.N*s.M)
}

func (s *sourcesSuite) checkRest(ctx context.Context, _ figures) ([]fact, error) {
	one := 1.0
	return []fact{{Name: "looks at the repository per interval", Value: s.perInterval, Limit: &one}}, s.onTarget(ctx, s.N*s.M)
}

func (s *sourcesSuite) checkPush(ctx context.Context, _ figures) ([]fact, error) {
	texts, err := s.textsOnTarget(ctx)
	if err != nil {
		return nil, err
	}
	for name, text := range texts {
		if text != "second" {
			return nil, fmt.Errorf("ConfigMap %s holds %q after the push", name, text)
		}
	}
	return []fact{{Name: "looks at the repository", Value: float64(s.looks() - s.looked)}}, nil
}
