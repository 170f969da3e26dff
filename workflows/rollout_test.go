package workflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
)

func TestARolloutTakesOnlyTheStepsThatItNeeds(t *testing.T) {
	failed := activities.StepResult{Phase: v1alpha1.RolloutFailed, Reason: "ApplyFailed"}
	cases := map[string]struct {
		apply activities.StepResult
		want  string
		phase v1alpha1.RolloutPhase
		fails string
	}{
		"nothing to prune or to wait for":    {succeeded, "apply", v1alpha1.RolloutSucceeded, ""},
		"objects are refused":                {failed, "apply", "", "ApplyFailed"},
		"the hub asks for something else":    {activities.StepResult{Superseded: true}, "apply", "", ""},
		"health is awaited":                  {activities.StepResult{Applied: 4, Pending: 1}, "apply, health", v1alpha1.RolloutSucceeded, ""},
		"objects are pruned":                 {activities.StepResult{Applied: 4, Prune: 2}, "apply, prune last", v1alpha1.RolloutSucceeded, ""},
		"objects are pruned, health awaited": {activities.StepResult{Applied: 4, Prune: 2, Pending: 1}, "apply, prune, health", v1alpha1.RolloutSucceeded, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var log []string
			env := newEnv(t)
			env.OnActivity(acts.ApplyObjects, mock.Anything, mock.Anything).Return(func(context.Context, delivery.RolloutInput) (activities.StepResult, error) {
				log = append(log, "apply")
				return tc.apply, nil
			})
			env.OnActivity(acts.PruneObjects, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.PruneInput) (activities.StepResult, error) {
				if in.Last {
					log = append(log, "prune last")
					return succeeded, nil
				}
				log = append(log, "prune")
				return activities.StepResult{Pruned: 2}, nil
			}).Maybe()
			env.OnActivity(acts.AwaitHealth, mock.Anything, mock.Anything).Return(func(context.Context, activities.HealthInput) (activities.StepResult, error) {
				log = append(log, "health")
				return succeeded, nil
			}).Maybe()
			env.ExecuteWorkflow(delivery.WorkflowRollout, delivery.RolloutInput{Key: podinfo, Cluster: "east", Number: 1, Digest: "sha256:a"})
			var out activities.StepResult
			err := env.GetWorkflowResult(&out)
			var failed *temporal.ApplicationError
			if errors.As(err, &failed) != (tc.fails != "") || failed != nil && failed.Type() != tc.fails {
				t.Fatalf("ended with %v, want a failure %q", err, tc.fails)
			}
			if got := strings.Join(log, ", "); got != tc.want || out.Phase != tc.phase {
				t.Errorf("steps: %s, phase %q; want %s, %q", got, out.Phase, tc.want, tc.phase)
			}
		})
	}
}

// hookLog installs steps and hooks that write what they were asked for, and hooks that answer as told.
func hookLog(env *testsuite.TestWorkflowEnvironment, applied activities.StepResult, answers map[string]activities.StepResult) *[]string {
	log := &[]string{}
	env.OnActivity(acts.ApplyObjects, mock.Anything, mock.Anything).Return(func(context.Context, delivery.RolloutInput) (activities.StepResult, error) {
		*log = append(*log, "apply")
		return applied, nil
	}).Maybe()
	env.OnActivity(acts.PruneObjects, mock.Anything, mock.Anything).Return(func(context.Context, activities.PruneInput) (activities.StepResult, error) {
		*log = append(*log, "prune")
		return activities.StepResult{}, nil
	}).Maybe()
	env.OnActivity(acts.AwaitHealth, mock.Anything, mock.Anything).Return(func(context.Context, activities.HealthInput) (activities.StepResult, error) {
		*log = append(*log, "health")
		return activities.StepResult{Healthy: applied.Applied}, nil
	}).Maybe()
	env.OnActivity(acts.RunHook, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.HookInput) (activities.StepResult, error) {
		text := in.Hook.Name
		if in.Last {
			text += " last"
		}
		*log = append(*log, text)
		return answers[in.Hook.Name], nil
	}).Maybe()
	return log
}

func TestHooksRunInTheirOrderAroundTheSteps(t *testing.T) {
	hooks := []delivery.HookRef{
		{Name: "smoke", Phase: v1alpha1.HookPostApply},
		{Name: "migrate", Phase: v1alpha1.HookPreApply},
		{Name: "alarm", Phase: v1alpha1.HookOnFailure},
		{Name: "tell", Phase: v1alpha1.HookPostApply},
		{Name: "backup", Phase: v1alpha1.HookPreApply},
	}
	failed := activities.StepResult{Phase: v1alpha1.RolloutFailed, Reason: "HookFailed", Message: "hook failed"}
	superseded := activities.StepResult{Superseded: true}
	answers := func(pairs ...any) map[string]activities.StepResult {
		all := map[string]activities.StepResult{"tell": succeeded}
		for i := 0; i < len(pairs); i += 2 {
			all[pairs[i].(string)] = pairs[i+1].(activities.StepResult)
		}
		return all
	}
	cases := map[string]struct {
		applied activities.StepResult
		answers map[string]activities.StepResult
		want    string
		phase   v1alpha1.RolloutPhase
		fails   string
	}{
		"nothing to wait for":        {activities.StepResult{Applied: 4}, answers(), "migrate, backup, apply, smoke, tell last", v1alpha1.RolloutSucceeded, ""},
		"objects are pruned":         {activities.StepResult{Applied: 4, Prune: 1}, answers(), "migrate, backup, apply, prune, smoke, tell last", v1alpha1.RolloutSucceeded, ""},
		"health is awaited":          {activities.StepResult{Applied: 4, Pending: 1}, answers(), "migrate, backup, apply, health, smoke, tell last", v1alpha1.RolloutSucceeded, ""},
		"one before it fails":        {activities.StepResult{}, answers("migrate", failed), "migrate, alarm", "", "HookFailed"},
		"the apply fails":            {failed, answers(), "migrate, backup, apply, alarm", "", "HookFailed"},
		"one after it fails":         {activities.StepResult{Applied: 4}, answers("smoke", failed), "migrate, backup, apply, smoke, alarm", "", "HookFailed"},
		"the hub asks for another":   {activities.StepResult{Applied: 4}, answers("backup", superseded), "migrate, backup", "", ""},
		"and so it does later":       {superseded, answers(), "migrate, backup, apply", "", ""},
		"the hook for failures also": {activities.StepResult{}, answers("migrate", failed, "alarm", superseded), "migrate, alarm", "", "HookFailed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t)
			log := hookLog(env, tc.applied, tc.answers)
			env.ExecuteWorkflow(delivery.WorkflowRollout, delivery.RolloutInput{Key: podinfo, Cluster: "east", Number: 1, Digest: "sha256:a", Hooks: hooks})
			var out activities.StepResult
			err := env.GetWorkflowResult(&out)
			var failed *temporal.ApplicationError
			if errors.As(err, &failed) != (tc.fails != "") || failed != nil && failed.Type() != tc.fails {
				t.Fatalf("ended with %v, want a failure %q", err, tc.fails)
			}
			if got := strings.Join(*log, ", "); got != tc.want || out.Phase != tc.phase {
				t.Errorf("steps: %s, phase %q; want %s, %q", got, out.Phase, tc.want, tc.phase)
			}
		})
	}
}

func TestADeletionRunsTheHooksThatAreDueAndGoesOn(t *testing.T) {
	due := [][]delivery.HookRef{
		{{Name: "drain", Phase: v1alpha1.HookPreDelete}, {Name: "backup", Phase: v1alpha1.HookPreDelete}},
		{{Name: "tell", Phase: v1alpha1.HookPostDelete}},
		nil,
	}
	var log []string
	env := newEnv(t)
	env.OnActivity(acts.DeleteRelease, mock.Anything, mock.Anything).Return(func(context.Context, activities.ObjectInput) (activities.ObjectResult, error) {
		log = append(log, "delete")
		hooks := due[0]
		due = due[1:]
		if hooks == nil {
			return activities.ObjectResult{Life: activities.Gone}, nil
		}
		return activities.ObjectResult{Life: activities.Deleting, Hooks: hooks}, nil
	})
	env.OnActivity(acts.RunHook, mock.Anything, mock.Anything).Return(func(_ context.Context, in activities.HookInput) (activities.StepResult, error) {
		log = append(log, in.Hook.Name)
		return activities.StepResult{}, nil
	})
	at(env, 0, func() { env.SignalWorkflow(delivery.SignalKick, deleted) })
	env.ExecuteWorkflow(delivery.WorkflowRelease, delivery.ReleaseInput{Key: podinfo})
	if got, want := strings.Join(log, ", "), "delete, drain, backup, delete, tell, delete"; got != want || !env.IsWorkflowCompleted() {
		t.Errorf("called: %s; want %s", got, want)
	}
}
