package workflows

import (
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/activities"
)

// cleaning is the removal of what is left on clusters that a Release has moved away from. It runs beside everything else
// that the Release does, for as long as such a cluster is unreachable.
type cleaning struct {
	done   workflow.Future
	cancel workflow.CancelFunc
}

// clean starts the removal, unless it is under way.
func (r *release) clean(ctx workflow.Context) {
	if r.cleaning != nil || workflow.GetVersion(ctx, "clean-former-clusters", workflow.DefaultVersion, 1) == workflow.DefaultVersion {
		return
	}
	running, cancel := workflow.WithCancel(ctx)
	r.cleaning = &cleaning{cancel: cancel, done: cleanFormer.start(running, "remove what "+r.key.String()+" has on former Clusters", activities.ObjectInput{Key: r.key})}
}

// stopCleaning cancels the removal and waits until it has ended, and reports whether it was under way.
func (r *release) stopCleaning(ctx workflow.Context) bool {
	if r.cleaning == nil {
		return false
	}
	unfinished := !r.cleaning.done.IsReady()
	r.cleaning.cancel()
	_ = r.cleaning.done.Get(ctx, nil) // how far it came is on the hub
	r.cleaning = nil
	return unfinished
}

// cleanAnew lets a removal that is under way look at once at what the Release asks for now: an attempt goes by what it
// read at its beginning, and the next one may be minutes away.
func (r *release) cleanAnew(ctx workflow.Context) {
	if r.stopCleaning(ctx) {
		r.clean(ctx)
	}
}

// concludeCleaning takes note of a removal that has ended. If something is left, the next look at the Release tells.
func (r *release) concludeCleaning(ctx workflow.Context) {
	if r.cleaning != nil && r.cleaning.done.IsReady() {
		r.stopCleaning(ctx)
	}
}
