package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/cli"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/render"
)

// pluginName is how the program is called when kubectl runs it as a plugin.
const pluginName = "kubectl-convoy"

// calledAs is what people type to run the program.
func calledAs(program string) string {
	if strings.HasPrefix(filepath.Base(program), pluginName) {
		return "kubectl convoy"
	}
	return "convoy"
}

// people are the commands for people, with the settings of the other commands where they mean the same.
func people() []*cobra.Command {
	r := &rendering{}
	temporal := &temporalFlags{}
	return cli.Commands(cli.Settings{
		UserAgent: "convoy/" + version,
		Temporal:  cli.TemporalFlags{Bind: temporal.bind, Options: temporal.options},
		Target: cli.TargetFlags{
			Bind: func(f *pflag.FlagSet) {
				r.bindConnect(f)
				r.bindAccounts(f)
			},
			Options: func() (dial.Policy, connect.Options, delivery.ServiceAccounts, error) {
				return r.Dial, r.Connect, r.ServiceAccounts, r.validateAccounts()
			},
		},
		Render: cli.RenderFlags{
			Bind:  func(f *pflag.FlagSet) { r.bind(f) },
			Given: func() bool { return len(r.Files) > 0 },
			Render: func(ctx context.Context, in io.Reader, hub client.Reader) (*v1alpha1.Release, *render.Output, error) {
				done, err := r.render(ctx, in, hub)
				if err != nil {
					return nil, nil, err
				}
				return done.release, done.Output, nil
			},
		},
	})
}
