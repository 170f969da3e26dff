package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/observe"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/status"
)

// observed is a Release as its observer knows it.
type observed struct {
	release *v1alpha1.Release
	owner   delivery.Owner
	// digest is of the render whose kinds these are, empty while none is to be observed.
	digest string
	kinds  observe.Kinds
	// rollout is the last one that has succeeded, and concluded when that was heard.
	rollout   int64
	concluded time.Time
	// checks and ignores are those of the spec, compiled.
	checks  *observe.Checks
	ignores *observe.Ignores
	// dirty: something of it changed since the last look, which was at looked. due is when to look all the same, zero for never.
	dirty bool
	// since is when the change was heard of that the next look is about, zero for none.
	since       time.Time
	looked, due time.Time
	// health turns only when it lasts, but for the first verdict by other checks, which are anew.
	health observe.Steady
	anew   bool
	// tried and confirmed are objects that the target was asked about.
	tried     map[delivery.ObjectRef]trial
	confirmed observe.Confirmed
	// told is when its workflow was told last of what drifted, object by object.
	told map[delivery.ObjectRef]time.Time
}

// take brings the Releases up to date, and follows what they have.
func (o *observation) take(ctx context.Context, all []*v1alpha1.Release) {
	there := map[string]bool{}
	for _, r := range all {
		there[r.Name] = true
		known := o.releases[r.Name]
		if known == nil || known.release.UID != r.UID {
			owner, err := o.owner(ctx, delivery.Key{Namespace: r.Namespace, Name: r.Name})
			if err != nil {
				continue // the next look tries again
			}
			known = &observed{owner: owner}
			o.releases[r.Name] = known
		}
		if known.release == nil || concerns(known.release, r) {
			known.dirty = true
		}
		known.compile(r)
		known.release = r
		o.learn(ctx, known)
	}
	for name := range o.releases {
		if !there[name] {
			delete(o.releases, name)
		}
	}
	if o.watches != nil {
		o.watches.JudgeBy(o.checks())
	}
	o.follow(ctx)
}

// compile compiles the expressions of a Release when they changed. What is not valid the reconcile tells.
func (r *observed) compile(is *v1alpha1.Release) {
	was := &v1alpha1.Release{}
	if r.release != nil {
		was = r.release
	}
	if !equality.Semantic.DeepEqual(was.Spec.HealthChecks, is.Spec.HealthChecks) {
		r.checks, _ = observe.NewChecks(is.Spec.HealthChecks)
		r.anew = r.release != nil
	}
	if !equality.Semantic.DeepEqual(was.Spec.IgnoreDifferences, is.Spec.IgnoreDifferences) {
		r.ignores, _ = observe.NewIgnores(is.Spec.IgnoreDifferences)
	}
}

// checks are those of all Releases that have some.
func (o *observation) checks() map[string]*observe.Checks {
	all := map[string]*observe.Checks{}
	for _, r := range o.releases {
		if r.checks != nil {
			all[r.owner.Key()] = r.checks
		}
	}
	return all
}

// concerns reports whether a change of a Release can change what is said of its objects.
func concerns(was, is *v1alpha1.Release) bool {
	said := func(r *v1alpha1.Release) []metav1.Condition {
		return slices.DeleteFunc(slices.Clone(r.Status.Conditions), func(c metav1.Condition) bool {
			return c.Type != v1alpha1.ConditionReady && c.Type != v1alpha1.ConditionHealthy && c.Type != v1alpha1.ConditionDrifted
		})
	}
	return was.Generation != is.Generation || !equality.Semantic.DeepEqual(was.Status.Rollout, is.Status.Rollout) ||
		!equality.Semantic.DeepEqual(was.Status.RenderRef, is.Status.RenderRef) ||
		!equality.Semantic.DeepEqual(was.Status.Drift, is.Status.Drift) || !equality.Semantic.DeepEqual(said(was), said(is))
}

// learn finds out which kinds a Release has.
func (o *observation) learn(ctx context.Context, r *observed) {
	digest := ""
	if delivery.Observable(r.release) {
		digest = r.release.Status.Rollout.Digest
		if number := r.release.Status.Rollout.Number; number != r.rollout {
			r.rollout, r.concluded = number, time.Now()
		}
	}
	if digest == r.digest || digest == "" { // while a rollout is under way, what was followed still is
		return
	}
	content, known := o.content(ctx, r)
	if !known {
		return
	}
	r.digest, r.kinds, r.dirty = digest, observe.KindsOf(content.Objects, content.Namespace()), true
}

// content is the render that the last rollout of a Release has applied. One that is gone is made again by the next reconcile.
func (o *observation) content(ctx context.Context, r *observed) (content render.Content, known bool) {
	content, err := o.Renders.Get(ctx, r.release.Namespace, *r.release.Status.RenderRef)
	if err != nil {
		activity.GetLogger(ctx).Warn("cannot read the render that is observed", "release", r.owner.String(), "error", typesOf(err))
	}
	return content, err == nil
}

// wish is what a render asks for on the target. Where nobody looks for drift, only that it is there.
func (r *observed) wish(content render.Content, looksForDrift bool) observe.Wish {
	return observe.Wish{
		Owner: r.owner, Objects: content.Objects, TargetNamespace: content.Namespace(),
		Checks: r.checks, Ignores: r.ignores,
		Applied: func(object *unstructured.Unstructured, namespace string) (*unstructured.Unstructured, observe.Extent) {
			applied, presence, all := apply.Wished(object, namespace, r.owner)
			switch {
			case all && looksForDrift:
				return applied, observe.Fields
			case presence:
				return applied, observe.Presence
			}
			return nil, observe.Nothing
		},
	}
}

// turn looks at one Release if it is due, and says when it is again, 0 for when something changes.
func (o *observation) turn(ctx context.Context, r *observed) (next time.Duration) {
	now, due := time.Now(), r.due
	if r.dirty {
		due = r.looked.Add(everyRelease)
	} else if due.IsZero() {
		return 0
	}
	if wait := due.Sub(now); wait > 0 {
		return wait
	}
	r.dirty, r.due = false, time.Time{}
	if !delivery.Observable(r.release) {
		r.since = time.Time{} // what a rollout changes is no news
		return 0
	}
	seen := status.Observation{LooksForDrift: r.release.Spec.SyncPolicy.Drift != v1alpha1.DriftIgnore}
	if o.watches == nil {
		open, why := delivery.Gate(o.key.Name, o.cluster)
		if open { // there is no connection, of which the next probe tells
			return r.again(everyCheck)
		}
		seen.Reason, seen.Unseen = v1alpha1.ReasonClusterNotReady, status.AnsweredLast(why, o.cluster.Status.LastReachableTime)
		if _, written := o.record(ctx, r, seen); !written {
			return r.again(everyCheck)
		}
		return 0
	}
	return o.judge(ctx, r, seen, now)
}

// judge compares a Release with what is watched, and says what came out.
func (o *observation) judge(ctx context.Context, r *observed, seen status.Observation, now time.Time) (next time.Duration) {
	content, known := o.content(ctx, r)
	if !known || r.digest != r.release.Status.Rollout.Digest {
		return r.again(everyCheck)
	}
	r.looked = now
	report := o.watches.Judge(ctx, r.wish(content, seen.LooksForDrift), now)
	if report.Outdated && len(report.Unseen) == 0 || slices.ContainsFunc(report.Unseen, func(k observe.KindState) bool { return k.Young(now) }) || now.Sub(r.concluded) < aftermath && len(report.Drifted) > 0 {
		return r.again(everyRelease)
	}
	if len(report.Unseen) == 0 {
		o.watches.Confirm(ctx, &report, &r.confirmed)
	}
	more := false
	if seen.LooksForDrift && len(report.Unseen) == 0 {
		var tried []observe.Drifted
		tried, more = o.try(ctx, r, content, report.Unsure)
		report.Drifted = append(report.Drifted, tried...)
	}
	next = r.conclude(content, report, now, &seen)
	if more {
		next = cmp.Or(min(next, everyCheck), everyCheck)
	}
	drift, written := o.record(ctx, r, seen)
	if !written {
		return r.again(everyCheck)
	}
	if !r.since.IsZero() {
		o.Metrics.observer.lag.Observe(time.Since(r.since).Seconds())
		r.since = time.Time{}
	}
	if wait := o.remind(ctx, r, drift, now); wait > 0 && (next == 0 || next > wait) {
		next = wait
	}
	if next > 0 {
		r.again(next)
	}
	return next
}

// again makes a Release due after a while.
func (r *observed) again(wait time.Duration) time.Duration {
	r.due = time.Now().Add(wait)
	return wait
}

// conclude makes of a report what is said of it. A health that is new is only said when it lasts; settles is when that is decided.
func (r *observed) conclude(content render.Content, report observe.Report, now time.Time, seen *status.Observation) (settles time.Duration) {
	if len(report.Unseen) > 0 {
		seen.Reason, seen.Unseen = v1alpha1.ReasonNotObserved, unseenKinds(report.Unseen)
		return 0
	}
	unhealthy := append(append([]observe.Finding{}, report.Failed...), report.Pending...)
	said := meta.FindStatusCondition(r.release.Status.Conditions, v1alpha1.ConditionHealthy)
	before := said != nil && said.Status == metav1.ConditionFalse
	if r.anew || said != nil && said.Status == metav1.ConditionUnknown { // then the first sight counts
		before, r.anew = len(unhealthy) > 0, false
	}
	degraded, settles := r.health.Turn(before, len(unhealthy) > 0, now)
	switch {
	case degraded && len(unhealthy) > 0:
		seen.Unhealthy = apply.Scrub(content.All(), fmt.Sprintf("%s not healthy: %s", delivery.Share(len(unhealthy), report.Objects, "object"), first(unhealthy)))
	case degraded: // it was, and heals: what was said stands until that lasts
		seen.Unhealthy = said.Message
	}
	seen.Count = len(report.Drifted)
	slices.SortStableFunc(report.Drifted, func(a, b observe.Drifted) int { // the status names only the first
		lately := func(d observe.Drifted) int {
			if delivery.CorrectedLately(r.release.Status.Drift, d.Ref) {
				return 1
			}
			return 0
		}
		return lately(a) - lately(b)
	})
	for _, d := range report.Drifted[:min(len(report.Drifted), status.MaxDrifted)] {
		seen.Drifted = append(seen.Drifted, v1alpha1.DriftedObject{
			Group: d.Ref.Group, Kind: d.Ref.Kind, Namespace: d.Ref.Namespace, Name: d.Ref.Name, Gone: d.Gone, Fields: d.Paths, Managers: d.Rivals,
		})
	}
	return settles
}

// unseenKinds says which kinds are not seen, and why.
func unseenKinds(all []observe.KindState) string {
	const named = 3
	var texts []string
	for _, k := range all[:min(len(all), named)] {
		problem := k.Problem
		if problem == "" {
			problem = "nothing was heard of it for more than " + observe.StaleAfter.String()
		}
		texts = append(texts, kindName(k)+": "+problem)
	}
	text := "not known: " + strings.Join(texts, "; ")
	if more := len(all) - named; more > 0 {
		text += fmt.Sprintf("; and %d kinds more", more)
	}
	return text
}

// record writes what is seen, when it is not what the status says, and gives what the status says then of drift. What cannot be written
// for now keeps no other Release waiting.
func (o *observation) record(ctx context.Context, r *observed, seen status.Observation) (drift *v1alpha1.DriftStatus, written bool) {
	judged := r.release.Status.Rollout.Number
	change := func(now *v1alpha1.Release) {
		if now.Status.Rollout != nil && now.Status.Rollout.Number == judged {
			status.Observed(now, seen)
		}
	}
	said := r.release.DeepCopy() // the informer's own is not to be changed
	change(said)
	if equality.Semantic.DeepEqual(said.Status, r.release.Status) {
		return said.Status.Drift, true
	}
	before := r.release.Status.Drift
	told := before != nil && before.Count > 0 // also when nobody could say for a while
	now := r.release.DeepCopy()
	if err := o.Status.Release(ctx, now, change); err != nil {
		activity.GetLogger(ctx).Warn("cannot record what is observed", "release", r.owner.String(), "error", typesOf(err))
		return nil, false
	}
	if drifted := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionDrifted); drifted != nil && drifted.Status == "True" &&
		(!told || !delivery.CorrectsDrift(now) && delivery.MoreDrifted(before, now.Status.Drift)) {
		o.Status.Event(now, true, v1alpha1.ReasonDrifted, drifted.Message)
	}
	return now.Status.Drift, true
}

// remind tells the workflow of a Release what drifted and may be corrected by now. wait is when there is something to tell again, 0 when
// only a change brings that.
func (o *observation) remind(ctx context.Context, r *observed, drift *v1alpha1.DriftStatus, now time.Time) (wait time.Duration) {
	if drift == nil || drift.Count == 0 || !delivery.CorrectsDrift(r.release) {
		r.told = nil
		return 0
	}
	told, news, wait := delivery.TellOfDrift(*drift, r.told, now)
	if news {
		err := o.Kicks.SignalWorkflow(ctx, delivery.ReleaseWorkflowID(r.release.Namespace, r.release.Name), "", delivery.SignalDrift, delivery.Drift{UID: string(r.release.UID)})
		if err != nil {
			activity.GetLogger(ctx).Warn("cannot tell of drift", "release", r.owner.String(), "error", typesOf(err))
			return min(wait, everyCheck)
		}
		o.Metrics.observer.kicks.WithLabelValues(o.key.Namespace, o.key.Name).Inc()
	}
	r.told = told
	return wait
}
