package workflows_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func TestAHookOfADeletionIsBegunAgainForAnotherSpecAndForNothingElse(t *testing.T) {
	again := deleted // for a label, or by a watcher that was started anew
	newer, older := deleted, deleted
	newer.Generation, older.Generation = 3, 1
	for name, tc := range map[string]struct {
		send func(signal func(name string, arg any))
		want string
	}{
		"nothing comes":        {func(func(string, any)) {}, "delete, hook 2, delete"},
		"a label":              {func(signal func(string, any)) { signal(delivery.SignalKick, again) }, "delete, hook 2, delete"},
		"a kick that was late": {func(signal func(string, any)) { signal(delivery.SignalKick, older) }, "delete, hook 2, delete"},
		"a label, and then another spec": {func(signal func(string, any)) {
			signal(delivery.SignalKick, again)
			signal(delivery.SignalKick, newer)
		}, "delete, delete, hook 3, delete"},
		"somebody asks": {func(signal func(string, any)) { signal(delivery.SignalReconcile, nil) }, "delete, delete, hook 2, delete"},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hub{}
			generation, ran := int64(2), false
			env := newEnv(t)
			start := env.Now()
			env.OnActivity(acts.DeleteRelease, mock.Anything, mock.Anything).Return(func(context.Context, activities.ObjectInput) (activities.ObjectResult, error) {
				h.note("delete")
				if ran {
					return activities.ObjectResult{Life: activities.Gone}, nil
				}
				leaving := delivery.HookRef{Name: "leaving", Phase: v1alpha1.HookPreDelete, Kind: "HTTP"}
				return activities.ObjectResult{Life: activities.Deleting, Hooks: []delivery.HookRef{leaving}, Generation: generation}, nil
			})
			env.OnActivity(acts.RunHook, mock.Anything, mock.Anything).Return(func(context.Context, activities.HookInput) (activities.StepResult, error) {
				if env.Now().Sub(start) < 10*time.Minute { // so that it waits between attempts when something comes
					return activities.StepResult{}, temporal.NewApplicationErrorWithOptions("503", "HookRetrying", temporal.ApplicationErrorOptions{NextRetryDelay: 12 * time.Minute})
				}
				h.note(fmt.Sprint("hook ", generation))
				ran = true
				return activities.StepResult{}, nil
			})
			at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, deleted) })
			at(env, 5*time.Minute, func() {
				tc.send(func(name string, arg any) {
					if kick, ok := arg.(delivery.Kick); ok {
						generation = max(generation, kick.Generation)
					}
					env.SignalWorkflow(name, arg)
				})
			})
			env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
			if err := env.GetWorkflowError(); err != nil || !env.IsWorkflowCompleted() {
				t.Errorf("the workflow ended with %v", err)
			}
			expect(t, h, tc.want)
		})
	}
}
