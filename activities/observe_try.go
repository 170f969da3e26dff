package activities

import (
	"context"
	"maps"
	"time"

	"go.temporal.io/sdk/activity"

	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/observe"
	"kumodo.io/convoy/internal/render"
)

// maxTries is how many objects of a Release one look tries: the others have their turn at the next ones.
const maxTries = 20

// trial is what a dry run said of an object.
type trial struct {
	about   observe.Unsure
	digest  string
	drifted bool
}

// try asks the target about objects of which what is watched leaves open whether they drifted, once for each state of each. It gives
// those that did; more says that some are left to be asked about.
func (o *observation) try(ctx context.Context, r *observed, content render.Content, all []observe.Unsure) (drifted []observe.Drifted, more bool) {
	known := map[delivery.ObjectRef]trial{}
	asked := map[delivery.ObjectRef]bool{}
	for _, u := range all {
		if t, tried := r.tried[u.Ref]; tried && t.digest == r.digest && u.Same(t.about) {
			known[u.Ref] = t
		} else if len(asked) < maxTries {
			asked[u.Ref] = true
			known[u.Ref] = trial{about: u, digest: r.digest}
		} else {
			more = true
		}
	}
	if len(asked) > 0 {
		changed, err := o.dryRun(ctx, r, content, asked)
		if err != nil { // what cannot be asked about now is at the next look; what is known of the others stands
			activity.GetLogger(ctx).Warn("cannot try whether objects drifted", "release", r.owner.String(), "error", typesOf(err))
			more = true
			maps.DeleteFunc(known, func(ref delivery.ObjectRef, _ trial) bool { return asked[ref] })
		}
		for ref := range changed {
			t := known[ref]
			t.drifted = true
			known[ref] = t
		}
	}
	r.tried = known
	for _, u := range all {
		if known[u.Ref].drifted {
			drifted = append(drifted, observe.Drifted{Ref: u.Ref, Drift: observe.Drift{Lost: 1, Unsure: true}})
		}
	}
	return drifted, more
}

// dryRun gives those of the objects that an apply would change. What the target refuses to try has not drifted, as far as anybody knows.
func (o *observation) dryRun(ctx context.Context, r *observed, content render.Content, asked map[delivery.ObjectRef]bool) (map[delivery.ObjectRef]bool, error) {
	target, err := o.targetOf(o.conn, r.release)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	preview, err := apply.DryRun(limited, target, apply.Request{
		Owner: r.owner, Objects: chosen(content, asked), Quiet: content.All(), TargetNamespace: content.TargetNamespace,
		Conflicts: r.release.Spec.SyncPolicy.Conflicts, Recreate: r.release.Spec.SyncPolicy.Recreate,
	})
	if err != nil {
		return nil, err
	}
	changed := map[delivery.ObjectRef]bool{}
	for _, c := range preview.Changes {
		if c.Live != nil && c.Differs() {
			changed[c.Ref] = true
		}
	}
	return changed, nil
}
