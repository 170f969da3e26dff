package main

import (
	"strings"
	"testing"

	"kumodo.io/convoy/worker"
)

func TestTheEnvironmentSaysWhatWorkersWorkAs(t *testing.T) {
	defer func(is string) { version = is }(version)
	for name, tc := range map[string]struct {
		version, deployment, build string
		want                       worker.Version
		refused                    string
	}{
		"nothing":                      {version: "v1"},
		"the version of the build":     {version: "v1", deployment: "convoy", want: worker.Version{Deployment: "convoy", BuildID: "v1"}},
		"another name of the build":    {version: "v1", deployment: "convoy", build: "b", want: worker.Version{Deployment: "convoy", BuildID: "b"}},
		"a build without a deployment": {version: "v1", build: "b", refused: "TEMPORAL_DEPLOYMENT_NAME and TEMPORAL_WORKER_BUILD_ID: a build id of workers belongs to a Worker Deployment"},
		"a bad name":                   {version: "v1", deployment: "a.b", refused: `"a.b" is no name of a Worker Deployment`},
		"a build that has no version":  {version: unknownVersion, deployment: "convoy", refused: "set TEMPORAL_WORKER_BUILD_ID to what tells it from others"},
	} {
		t.Run(name, func(t *testing.T) {
			version = tc.version
			got, err := workerVersion(func(name string) string {
				return map[string]string{"TEMPORAL_DEPLOYMENT_NAME": tc.deployment, "TEMPORAL_WORKER_BUILD_ID": tc.build}[name]
			})
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}
