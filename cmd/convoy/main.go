// Command convoy delivers applications to many Kubernetes clusters. `convoy run` is the controller, `convoy install`
// prints what installs it on a hub, `convoy preflight` says whether this build can take over from the one that runs, `convoy
// render` prints what a Release renders to, and the other commands show what convoy does and tell it what to do, also as
// `kubectl convoy`.
package main

import (
	"os"
	"strings"
	_ "time/tzdata" // windows name time zones, and the image has no database of them

	"github.com/spf13/cobra"

	"kumodo.io/convoy/internal/cli"
	"kumodo.io/convoy/internal/render"
)

func main() {
	render.ServeBuilds()
	name := calledAs(os.Args[0])
	os.Exit(cli.Report(os.Stderr, name, rootCommand(name).Execute()))
}

func rootCommand(name string) *cobra.Command {
	root := &cobra.Command{
		Use:           "convoy",
		Short:         "Deliver applications to many Kubernetes clusters",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), renderCommand(), installCommand(), preflightCommand(), versionCommand())
	root.AddCommand(people()...)
	for _, command := range root.Commands() {
		command.Example = strings.ReplaceAll(command.Example, "convoy ", name+" ")
	}
	return root
}
