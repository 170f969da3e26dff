package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// Version is what a process works as in a Worker Deployment of Temporal. The zero Version works in none: it takes work
// whichever build began it.
type Version struct {
	Deployment, BuildID string
}

// maxVersionName is below what Temporal makes names of workflows of its own from.
const maxVersionName = 200

// NewVersion is the version of a build in a Worker Deployment, the zero one without a name. Temporal would only refuse a bad name
// when the first worker polls, again and again.
func NewVersion(deployment, buildID string) (Version, error) {
	switch {
	case deployment == "" && buildID == "":
		return Version{}, nil
	case deployment == "":
		return Version{}, errors.New("a build id of workers belongs to a Worker Deployment, which has no name")
	case buildID == "":
		return Version{}, fmt.Errorf("workers of the Worker Deployment %s need a build id", deployment)
	case strings.ContainsAny(deployment, ".:"):
		return Version{}, fmt.Errorf("%q is no name of a Worker Deployment: it has a dot or a colon", deployment)
	}
	for _, name := range []string{deployment, buildID} {
		if strings.HasPrefix(name, "__") || len(name) > maxVersionName {
			return Version{}, fmt.Errorf("%q cannot name a Worker Deployment or a build: it begins with __ or has more than %d bytes", name, maxVersionName)
		}
	}
	return Version{deployment, buildID}, nil
}

func (v Version) sdk() worker.WorkerDeploymentVersion {
	return worker.WorkerDeploymentVersion{DeploymentName: v.Deployment, BuildID: v.BuildID}
}

// options are those of every queue. A workflow of an object lives as long as the object, and a rollout may wait for days: neither
// may depend on the workers of one version, so each goes on with whichever is current.
func (v Version) options() worker.DeploymentOptions {
	if v == (Version{}) {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{UseVersioning: true, Version: v.sdk(), DefaultVersioningBehavior: workflow.VersioningBehaviorAutoUpgrade}
}

// command is what has Temporal give work to the version.
func (v Version) command(namespace string) string {
	return fmt.Sprintf("temporal worker deployment set-current-version --namespace %s --deployment-name %s --build-id %s", namespace, v.Deployment, v.BuildID)
}

// routing is to which version Temporal gives work: this one or not, and what it is instead.
type routing struct {
	here  bool
	other string
}

func (v Version) routingOf(c client.WorkerDeploymentRoutingConfig) routing {
	if isVersion(c.CurrentVersion, v) || isVersion(c.RampingVersion, v) && c.RampingVersionPercentage > 0 {
		return routing{here: true}
	}
	if c.CurrentVersion == nil {
		return routing{other: "no version is current"}
	}
	return routing{other: "version " + c.CurrentVersion.BuildID + " is current"}
}

func isVersion(is *worker.WorkerDeploymentVersion, v Version) bool {
	return is != nil && is.DeploymentName == v.Deployment && is.BuildID == v.BuildID
}

// CheckVersion fails until Temporal has given work to the version of the process for the first time. While it does not, the
// process does nothing that the one before it could be ended for.
func (w *Worker) CheckVersion() error {
	if w.options.Version != (Version{}) && !w.chosen.Load() {
		return fmt.Errorf("Temporal gives no work to build %s of the Worker Deployment %s", w.options.Version.BuildID, w.options.Version.Deployment) //nolint:staticcheck // a name
	}
	return nil
}

// followRouting says in the log whether Temporal gives work to the version of the process, until ctx is done: at once, when that
// changes, and once a minute while it has never done so.
func (w *Worker) followRouting(ctx context.Context) {
	v, pause := w.options.Version, w.options.RoutingPeriod
	var known *routing
	var said time.Time
	for {
		is, err := w.routing(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case isDenied(err):
			w.options.Logger.Warn("Temporal does not let convoy see which version of its Worker Deployment is current; if it is another one, this process gets no work",
				"deployment", v.Deployment, "build", v.BuildID, "to make it current", v.command(w.options.Namespace))
			w.chosen.Store(true) // nobody could tell when
			return
		case err != nil: // Temporal is away, which others say
		case known == nil || *known != is || !w.chosen.Load() && time.Since(said) >= time.Minute:
			w.tell(is)
			known, said = &is, time.Now()
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// routing asks Temporal. It does not know the deployment before the first worker of it has polled.
func (w *Worker) routing(ctx context.Context) (routing, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	v := w.options.Version
	d, err := w.temporal.WorkerDeploymentClient().GetHandle(v.Deployment).Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if _, absent := errors.AsType[*serviceerror.NotFound](err); absent {
		return v.routingOf(client.WorkerDeploymentRoutingConfig{}), nil
	}
	if err != nil {
		return routing{}, err
	}
	return v.routingOf(d.Info.RoutingConfig), nil
}

func (w *Worker) tell(is routing) {
	v := w.options.Version
	if is.here {
		w.chosen.Store(true)
		w.options.Logger.Info("Temporal gives work to this version of the Worker Deployment", "deployment", v.Deployment, "build", v.BuildID)
		return
	}
	w.options.Logger.Warn("Temporal gives no work to this version of the Worker Deployment: "+is.other, "deployment", v.Deployment, "build", v.BuildID,
		"to make it current", v.command(w.options.Namespace))
}
