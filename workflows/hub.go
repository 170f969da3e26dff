package workflows

import (
	"go.temporal.io/sdk/workflow"

	"kumodo.io/convoy/internal/delivery"
)

// Hub runs until somebody ends it. That it runs is what it is for: its ID can be taken once, so a namespace of Temporal
// serves the one hub that its memo names.
func Hub(ctx workflow.Context, in delivery.HubInput) error {
	workflow.SetCurrentDetails(ctx, table("Hub", in.HubID, "What it is for", "this namespace serves that hub alone; convoy install claim tells, and hands it over"))
	return workflow.Await(ctx, func() bool { return false })
}
