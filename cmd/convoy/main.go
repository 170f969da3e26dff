// Command convoy delivers applications to many Kubernetes clusters. `convoy run` is the controller, `convoy render`
// prints what a Release renders to.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // windows name time zones, and the image has no database of them

	"github.com/spf13/cobra"

	"kumodo.io/convoy/internal/render"
)

// version is set when a release is built.
var version = "dev"

func main() {
	render.ServeBuilds()
	root := &cobra.Command{
		Use:           "convoy",
		Short:         "Deliver applications to many Kubernetes clusters",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(), renderCommand(), versionCommand())
	if err := root.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "convoy:", err)
		os.Exit(1)
	}
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), version) },
	}
}
