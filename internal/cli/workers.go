package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	deploymentpb "go.temporal.io/api/deployment/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
)

// pollLimit is longer than a worker waits for work in one request. Temporal lists workers that have ended for some time.
const pollLimit = 90 * time.Second

// blocked says why no worker takes what a workflow has to do next; empty when nothing waits, or a worker is about to take it.
func (e *engine) blocked(ctx context.Context, d *workflowservice.DescribeWorkflowExecutionResponse) string {
	task := d.GetPendingWorkflowTask()
	if task.GetAttempt() > 1 && task.GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED {
		return fmt.Sprintf("workers failed at it %d times; their logs say why, and convoy preflight whether they are of a version that cannot go on with it", task.GetAttempt()-1)
	}
	idle := func(p *workflowpb.PendingActivityInfo) bool {
		return p.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED && p.GetNextAttemptScheduleTime() == nil
	}
	if task.GetState() != enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED && !slices.ContainsFunc(d.GetPendingActivities(), idle) {
		return ""
	}
	queue := d.GetExecutionConfig().GetTaskQueue().GetName()
	found, err := e.DescribeTaskQueue(ctx, queue, enumspb.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return "" // it is only a hint, and Temporal may forbid it
	}
	return whyIdle(queue, e.namespace, found.GetPollers(), found.GetVersioningInfo(), time.Now())
}

// whyIdle says why none of the workers of a queue gets its work; empty when one does.
func whyIdle(queue, namespace string, workers []*taskqueuepb.PollerInfo, v *taskqueuepb.TaskQueueVersioningInfo, now time.Time) string {
	others := map[string]string{} // what to do, by what there is
	for _, w := range workers {
		if now.Sub(w.GetLastAccessTime().AsTime()) > pollLimit {
			continue
		}
		is := versionOf(w)
		if sameVersion(is, v.GetCurrentDeploymentVersion()) || v.GetRampingVersionPercentage() > 0 && sameVersion(is, v.GetRampingDeploymentVersion()) {
			return ""
		}
		set := fmt.Sprintf("--unversioned --deployment-name %s", v.GetCurrentDeploymentVersion().GetDeploymentName())
		if is != nil {
			set = fmt.Sprintf("--deployment-name %s --build-id %s", is.GetDeploymentName(), is.GetBuildId())
		}
		others[versionName(is)] = "temporal worker deployment set-current-version --namespace " + namespace + " " + set
	}
	if len(others) == 0 {
		return fmt.Sprintf("no worker of convoy asks Temporal for work, which is in the task queue %s of its namespace %s", queue, namespace)
	}
	var names, commands []string
	for name, command := range others {
		names, commands = append(names, name), append(commands, command)
	}
	slices.Sort(names)
	slices.Sort(commands)
	return fmt.Sprintf("the workers are %s, and Temporal gives work to those that are %s; to change that: %s", strings.Join(names, " and "),
		versionName(v.GetCurrentDeploymentVersion()), strings.Join(commands, ", or "))
}

// versionOf is the version that a worker works as; nil when it works as none.
func versionOf(w *taskqueuepb.PollerInfo) *deploymentpb.WorkerDeploymentVersion {
	o := w.GetDeploymentOptions()
	if o.GetWorkerVersioningMode() != enumspb.WORKER_VERSIONING_MODE_VERSIONED {
		return nil
	}
	return &deploymentpb.WorkerDeploymentVersion{DeploymentName: o.GetDeploymentName(), BuildId: o.GetBuildId()}
}

func sameVersion(a, b *deploymentpb.WorkerDeploymentVersion) bool {
	return (a == nil) == (b == nil) && a.GetDeploymentName() == b.GetDeploymentName() && a.GetBuildId() == b.GetBuildId()
}

func versionName(v *deploymentpb.WorkerDeploymentVersion) string {
	if v == nil {
		return "of no version"
	}
	return "build " + v.GetBuildId() + " of " + v.GetDeploymentName()
}
