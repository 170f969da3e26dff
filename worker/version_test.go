package worker

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// deployments is a Temporal server as far as its Worker Deployments go.
type deployments struct {
	client.Client
	mu      sync.Mutex
	routing client.WorkerDeploymentRoutingConfig
	err     error
}

// handles are those of one deployment.
type handles struct {
	client.WorkerDeploymentClient
	client.WorkerDeploymentHandle
	of *deployments
}

func (d *deployments) WorkerDeploymentClient() client.WorkerDeploymentClient { return &handles{of: d} }

func (h *handles) GetHandle(string) client.WorkerDeploymentHandle { return h }

func (h *handles) Describe(context.Context, client.WorkerDeploymentDescribeOptions) (client.WorkerDeploymentDescribeResponse, error) {
	d := h.of
	d.mu.Lock()
	defer d.mu.Unlock()
	return client.WorkerDeploymentDescribeResponse{Info: client.WorkerDeploymentInfo{RoutingConfig: d.routing}}, d.err
}

func (d *deployments) become(current string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.routing = err, client.WorkerDeploymentRoutingConfig{}
	if current != "" {
		d.routing.CurrentVersion = &worker.WorkerDeploymentVersion{DeploymentName: "convoy", BuildID: current}
	}
}

// heard keeps what is logged, with the values.
type heard struct {
	log.Logger
	lines []string
}

func (h *heard) Info(text string, values ...any) { h.Warn(text, values...) }

func (h *heard) Warn(text string, values ...any) {
	for i := 1; i < len(values); i += 2 {
		text += "|" + values[i].(string)
	}
	h.lines = append(h.lines, text)
}

func TestAVersionedWorkerSaysWhetherItGetsWorkAndHow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, logger := &deployments{err: serviceerror.NewNotFound("no such deployment")}, &heard{}
		w := New(server, nil, nil, Options{Namespace: "hub", Version: Version{"convoy", "2"}, RoutingPeriod: 5 * time.Second, Logger: logger})
		ctx, cancel := context.WithCancel(t.Context())
		go w.followRouting(ctx)
		next := func(d time.Duration) string {
			<-time.After(d)
			synctest.Wait()
			lines := strings.Join(logger.lines, "\n")
			logger.lines = nil
			return lines
		}
		for _, step := range []struct {
			current string
			err     error
			after   time.Duration
			says    string
			ready   bool
		}{
			{"", serviceerror.NewNotFound("no such deployment"), 30 * time.Second, "gives no work to this version of the Worker Deployment: no version is current|convoy|2|temporal worker deployment set-current-version --namespace hub --deployment-name convoy --build-id 2", false},
			{"", nil, 20 * time.Second, "", false},
			{"1", nil, 5 * time.Second, "version 1 is current", false},
			{"1", nil, 50 * time.Second, "", false},
			{"1", nil, 15 * time.Second, "version 1 is current", false}, // it says so again
			{"1", serviceerror.NewUnavailable("away"), 5 * time.Second, "", false},
			{"2", nil, 5 * time.Second, "Temporal gives work to this version of the Worker Deployment|convoy|2", true},
			{"2", nil, 10 * time.Minute, "", true},
			{"1", nil, 5 * time.Second, "version 1 is current", true},
			{"1", nil, 10 * time.Minute, "", true},
		} {
			server.become(step.current, step.err)
			lines := next(step.after)
			if step.says == "" && lines != "" || !strings.Contains(lines, step.says) || strings.Contains(lines, "\n") {
				t.Errorf("%q is current, %v: it says %q, want %q", step.current, step.err, lines, step.says)
			}
			if err := w.CheckVersion(); (err == nil) != step.ready {
				t.Errorf("%q is current, %v: it is ready or not: %v", step.current, step.err, err)
			}
		}
		cancel()
	})
}

func TestAVersionedWorkerThatMayNotSeeVersionsWorksAllTheSame(t *testing.T) {
	server, logger := &deployments{err: serviceerror.NewPermissionDenied("no", "")}, &heard{}
	w := New(server, nil, nil, Options{Namespace: "hub", Version: Version{"convoy", "2"}, RoutingPeriod: time.Second, Logger: logger})
	w.followRouting(t.Context())
	if len(logger.lines) != 1 || !strings.Contains(logger.lines[0], "set-current-version") || w.CheckVersion() != nil {
		t.Errorf("it says %q, and is ready or not: %v", logger.lines, w.CheckVersion())
	}
}

func TestAVersionThatARampLeadsToGetsWork(t *testing.T) {
	v := Version{"convoy", "2"}
	c := client.WorkerDeploymentRoutingConfig{
		CurrentVersion: &worker.WorkerDeploymentVersion{DeploymentName: "convoy", BuildID: "1"},
		RampingVersion: &worker.WorkerDeploymentVersion{DeploymentName: "convoy", BuildID: "2"},
	}
	if v.routingOf(c).here {
		t.Error("a ramp of no per cent gives it work")
	}
	if c.RampingVersionPercentage = 5; !v.routingOf(c).here {
		t.Error("a ramp of five per cent gives it no work")
	}
}

func TestWorkersHaveVersionsOnlyWhenTheyAreToldTo(t *testing.T) {
	if o := New(nil, nil, nil, Options{}).common(nil, worker.Options{}); o.DeploymentOptions != (worker.DeploymentOptions{}) {
		t.Errorf("without a version: %+v", o.DeploymentOptions)
	}
	o := New(nil, nil, nil, Options{Version: Version{"convoy", "2"}}).common(nil, worker.Options{}).DeploymentOptions
	if !o.UseVersioning || o.Version.DeploymentName != "convoy" || o.Version.BuildID != "2" || o.DefaultVersioningBehavior != workflow.VersioningBehaviorAutoUpgrade {
		t.Errorf("with a version: %+v", o)
	}
	if err := New(nil, nil, nil, Options{}).CheckVersion(); err != nil {
		t.Error(err)
	}
}

func TestNamesOfVersionsThatTemporalRefusesAreRefusedAtTheStart(t *testing.T) {
	for _, v := range []Version{{"", "2"}, {"convoy", ""}, {"con.voy", "2"}, {"con:voy", "2"}, {"__convoy", "2"}, {"convoy", "__unversioned__"}, {"convoy", strings.Repeat("a", 201)}} {
		if _, err := NewVersion(v.Deployment, v.BuildID); err == nil {
			t.Errorf("%+v is taken", v)
		}
	}
	for _, v := range []Version{{}, {"convoy", "v1.2.3-4-gabcdef:x"}} {
		if got, err := NewVersion(v.Deployment, v.BuildID); err != nil || got != v {
			t.Errorf("%+v is %+v, %v", v, got, err)
		}
	}
}
