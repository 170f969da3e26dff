package workflows

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/internal/delivery"
)

// Source looks at a source at each interval, for all Releases that share it, and tells them when it finds another
// revision or none. It lives as long as a Release uses it. The Releases look themselves when they begin and when they
// change, so the first look here is an interval after the start.
func Source(ctx workflow.Context, in delivery.SourceInput) error {
	s := &source{SourceInput: in}
	s.users = workflow.GetSignalChannelWithOptions(ctx, delivery.SignalUsers, workflow.SignalChannelOptions{
		Description: "Sent by the watcher: how many Releases use this source, and how often they want it looked at.",
	})
	s.looks = workflow.GetSignalChannelWithOptions(ctx, delivery.SignalLook, workflow.SignalChannelOptions{
		Description: "Look at the source now, also in the middle of a backoff.",
	})
	s.Interval = cmp.Or(s.Interval, delivery.PollIntervalOf(s.Poll.Source))
	if s.Next.IsZero() {
		s.schedule(ctx)
	}
	return s.run(ctx)
}

// source is the state of the workflow, most of which goes over to the next run.
type source struct {
	delivery.SourceInput

	users    workflow.ReceiveChannel
	looks    workflow.ReceiveChannel
	standing standing
	count    int
	unused   bool // the watcher, or a look, found that nobody uses it
}

// sourceBackoff is between looks that fail, up to the interval.
const sourceBackoff = 5 * time.Second

// lookGap is the least time between two looks that somebody asked for: a storm of pushes costs one at a time.
const lookGap = 2 * time.Second

func (s *source) run(ctx workflow.Context) error {
	for {
		s.show(ctx)
		options := workflow.AwaitOptions{
			Timeout:      s.Next.Sub(workflow.Now(ctx)),
			TimerOptions: workflow.TimerOptions{Summary: "until the next look at the source"},
		}
		if options.Timeout > 0 && !s.stirred() {
			if err := awaitFor(ctx, options, s.stirred); err != nil {
				return err
			}
		}
		if s.drain(ctx); s.over() {
			return nil
		}
		if workflow.Now(ctx).Before(s.Next) {
			continue
		}
		if err := s.look(ctx); err != nil {
			return err
		}
		if s.over() {
			return nil
		}
		if grown(ctx) && !s.stirred() {
			return workflow.NewContinueAsNewError(ctx, Source, s.SourceInput)
		}
	}
}

func (s *source) stirred() bool { return s.users.Len() > 0 || s.looks.Len() > 0 }

func (s *source) over() bool { return s.unused && !s.stirred() }

func (s *source) counted(users int) { s.count, s.unused = users, users == 0 }

// drain takes everything that has come in.
func (s *source) drain(ctx workflow.Context) {
	var u delivery.Users
	for s.users.ReceiveAsync(&u) {
		s.counted(u.Count)
		s.Joined = s.Joined || u.Joined
		s.Until = workflow.Now(ctx).Add(u.Lease)
		if u.Count > 0 && u.Interval != s.Interval {
			s.Interval = u.Interval
			s.schedule(ctx)
		}
		u = delivery.Users{}
	}
	asked := false
	for s.looks.ReceiveAsync(nil) {
		asked = true
	}
	soon := workflow.Now(ctx)
	if since := soon.Sub(s.Last.At); since < lookGap {
		soon = s.Last.At.Add(lookGap)
	}
	if asked && soon.Before(s.Next) {
		s.Next = soon
	}
}

// schedule sets the time of the next look.
func (s *source) schedule(ctx workflow.Context) {
	wait := delivery.Jitter(s.Interval, workflow.GetInfo(ctx).WorkflowExecution.ID, s.Turn)
	if s.Failures > 0 {
		wait = min(wait, delivery.Backoff{Base: sourceBackoff, Cap: s.Interval}.Delay(s.Failures))
	}
	s.Next = workflow.Now(ctx).Add(wait)
}

// look asks the source, unless somebody ends the workflow.
func (s *source) look(ctx workflow.Context) error {
	in := activities.LookInput{Poll: s.Poll, Last: s.Last, Joined: s.Joined, Count: workflow.Now(ctx).After(s.Until)}
	s.Turn, s.Joined = s.Turn+1, false
	out, err := result[activities.LookResult](ctx, lookSource.start(ctx, "look at "+s.Poll.String(), in))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.Joined = true // nobody may have been told anything
		out.Word.Reason, out.Word.Message = describe(err)
	} else {
		s.Last = out.Word
	}
	s.Failures++
	if out.Word.Reason == "" {
		s.Failures = 0
	}
	if out.Users != nil {
		s.counted(*out.Users)
		s.Until = workflow.Now(ctx).Add(s.Interval)
	}
	s.schedule(ctx)
	return s.standing.turn(ctx, s.stands(out.Word))
}

func (s *source) stands(w delivery.Word) standing {
	if w.Reason != "" {
		return standing{phase: "Failed", revision: s.standing.revision}
	}
	return standing{phase: "Found", revision: w.Revision, ready: true}
}

func (s *source) show(ctx workflow.Context) {
	last := s.Last.Reason
	if s.Last.Message != "" {
		last += ": " + s.Last.Message
	}
	users := ""
	if s.count > 0 {
		users = strconv.Itoa(s.count)
	}
	workflow.SetCurrentDetails(ctx, table(
		"Source", s.Poll.String(), "Releases", users, "Revision", s.Last.Revision, "Last result", last,
		"Looks", fmt.Sprintf("every %s, the next one at %s", s.Interval, s.Next.UTC().Format(time.RFC3339)),
	))
}
