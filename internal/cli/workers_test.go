package cli

import (
	"strings"
	"testing"
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestWhyNoWorkerTakesWhatIsDue(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	worker := func(build string, last time.Duration) *taskqueuepb.PollerInfo {
		w := &taskqueuepb.PollerInfo{LastAccessTime: timestamppb.New(now.Add(-last))}
		if build != "" {
			w.DeploymentOptions = &deploymentpb.WorkerDeploymentOptions{
				DeploymentName: "convoy", BuildId: build, WorkerVersioningMode: enumspb.WORKER_VERSIONING_MODE_VERSIONED,
			}
		}
		return w
	}
	routing := func(current, ramping string, percent float32) *taskqueuepb.TaskQueueVersioningInfo {
		v := &taskqueuepb.TaskQueueVersioningInfo{RampingVersionPercentage: percent}
		if current != "" {
			v.CurrentDeploymentVersion = &deploymentpb.WorkerDeploymentVersion{DeploymentName: "convoy", BuildId: current}
		}
		if ramping != "" {
			v.RampingDeploymentVersion = &deploymentpb.WorkerDeploymentVersion{DeploymentName: "convoy", BuildId: ramping}
		}
		return v
	}
	type workers = []*taskqueuepb.PollerInfo
	const set = "temporal worker deployment set-current-version --namespace hub "
	for name, tc := range map[string]struct {
		workers workers
		routing *taskqueuepb.TaskQueueVersioningInfo
		says    string
	}{
		"nobody":                     {nil, nil, "no worker of convoy asks Temporal for work, which is in the task queue convoy of its namespace hub"},
		"nobody any more":            {workers{worker("", 2*time.Minute)}, nil, "no worker of convoy asks"},
		"one without versions":       {workers{worker("", time.Minute)}, nil, ""},
		"one of the current version": {workers{worker("1", 0), worker("2", 0)}, routing("2", "", 0), ""},
		"one of a version that gets some of the work": {workers{worker("2", 0)}, routing("1", "2", 5), ""},
		"one of a version that gets none":             {workers{worker("2", 0)}, routing("1", "2", 0), "the workers are build 2 of convoy, and Temporal gives work to those that are build 1 of convoy; to change that: " + set + "--deployment-name convoy --build-id 2"},
		"no version is current":                       {workers{worker("2", 0), worker("1", 0)}, routing("", "", 0), "the workers are build 1 of convoy and build 2 of convoy, and Temporal gives work to those that are of no version; to change that: " + set + "--deployment-name convoy --build-id 1, or " + set + "--deployment-name convoy --build-id 2"},
		"workers without versions after ones with":    {workers{worker("", 0)}, routing("1", "", 0), "the workers are of no version, and Temporal gives work to those that are build 1 of convoy; to change that: " + set + "--unversioned --deployment-name convoy"},
	} {
		t.Run(name, func(t *testing.T) {
			says := whyIdle("convoy", "hub", tc.workers, tc.routing, now)
			if says != tc.says && (tc.says == "" || !strings.HasPrefix(says, tc.says)) {
				t.Errorf("it says %q, want %q", says, tc.says)
			}
		})
	}
}
