package worker

import "go.uber.org/fx"

// Module provides the Worker.
var Module = fx.Module("worker", fx.Provide(New))
