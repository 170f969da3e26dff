package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"kumodo.io/convoy/worker"
)

// version is set when a release is built.
var version = unknownVersion

const unknownVersion = "dev"

// The variables that the SDKs and tools of Temporal give a versioned worker.
const (
	deploymentVariable = "TEMPORAL_DEPLOYMENT_NAME"
	buildVariable      = "TEMPORAL_WORKER_BUILD_ID"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), version) },
	}
}

// workerVersion is what the workers of this process work as, by the environment. A build is told by its version unless the
// environment has another name for it.
func workerVersion(env func(string) string) (worker.Version, error) {
	deployment, build := env(deploymentVariable), env(buildVariable)
	if deployment != "" {
		if build = cmp.Or(build, buildID()); build == "" {
			return worker.Version{}, fmt.Errorf("%s is set, and this build has no version of its own: set %s to what tells it from others", deploymentVariable, buildVariable)
		}
	}
	v, err := worker.NewVersion(deployment, build)
	if err != nil {
		return worker.Version{}, fmt.Errorf("%s and %s: %w", deploymentVariable, buildVariable, err)
	}
	return v, nil
}

// buildID tells this build from others; empty when nothing does.
func buildID() string {
	if version != unknownVersion {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if settings["vcs.modified"] == "true" {
		return ""
	}
	return settings["vcs.revision"]
}
