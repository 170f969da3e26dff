package workflows_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"

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
