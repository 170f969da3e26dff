package activities

import (
	"go.uber.org/fx"

	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/hook"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/source"
	"kumodo.io/convoy/internal/status"
)

// Module provides the Activities and what they call.
var Module = fx.Module("activities",
	fx.Provide(New, NewMetrics, fx.Annotate(connect.NewPool, fx.OnStop((*connect.Pool).Close)), source.New, hook.NewSender, render.NewBuilds, render.NewStore, apply.NewLedger, status.NewWriter),
)
