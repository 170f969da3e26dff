package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// deployment is the Worker Deployment of the convoys with versions.
const deployment = "convoy"

// versioned are the workers of one hub, by their builds.
type versioned struct {
	*scene
	builds map[string]*convoy
}

// run starts workers and an observer of a build; the one called "" has no version. It does not wait until they are ready.
func (v *versioned) run(build string) *convoy {
	v.Helper()
	if c := v.builds[build]; c != nil {
		v.must(c.launch())
		return c
	}
	c, err := newConvoy(v.local.Hub.Name+"-build-"+build, "--roles=worker,observer", "--kubeconfig="+v.hubFile, "--temporal-address="+v.local.Temporal.Address)
	v.must(err)
	if build != "" {
		c.env = []string{"TEMPORAL_DEPLOYMENT_NAME=" + deployment, "TEMPORAL_WORKER_BUILD_ID=" + build}
	}
	v.builds[build] = c
	v.Cleanup(func() {
		for _, end := range []func() error{c.stop, c.keep, c.check} {
			v.must(end())
		}
	})
	v.must(c.launch())
	return c
}

// says waits until the log of a convoy has some words.
func (v *versioned) logs(c *convoy, words string) {
	v.Helper()
	v.eventually("the log of "+c.name+" says "+words, func(context.Context) error {
		log, err := os.ReadFile(c.log)
		if err == nil && !strings.Contains(string(log), words) {
			err = errors.New("it does not")
		}
		return err
	})
}

// choose has Temporal give work to a build, which has polled all queues by the time that it takes.
func (v *versioned) choose(build string) {
	v.Helper()
	args := []string{"worker", "deployment", "set-current-version", "--yes", "--deployment-name=" + deployment, "--build-id=" + build}
	if build == "" {
		args[len(args)-1] = "--unversioned"
	}
	v.eventually(fmt.Sprintf("build %q is current", build), func(context.Context) error {
		_, err := v.temporalCommand(args...)
		return err
	})
}

// delivers changes what the Release delivers, and waits until it is there, delivered by workers of a build.
func (v *versioned) delivers(build, text string) {
	v.Helper()
	v.edit("greeting", text)
	v.eventually(text+" is delivered", func(context.Context) error {
		if is := v.scene.says(v.on(alpha), "greeting"); is != text {
			return fmt.Errorf("it says %q", is)
		}
		return nil
	})
	v.awaitDelivered("app")
	v.wantBuild("app", build)
}

func (v *versioned) wantBuild(release, build string) {
	v.Helper()
	info := v.describe(v.releaseWorkflow(release)).GetWorkflowExecutionInfo().GetVersioningInfo()
	if is := info.GetDeploymentVersion().GetBuildId(); is != build {
		v.Errorf("the workflow of Release %s is at build %q, want %q", release, is, build)
	}
}

// why is what convoy says about a Release.
func (v *versioned) why(release, words string) {
	v.Helper()
	v.eventually("convoy why says "+words, func(context.Context) error {
		out, err := v.command("convoy-race", "why", "release", release, "--kubeconfig="+v.hubFile, "--namespace="+v.ns, "--temporal-address="+v.local.Temporal.Address)
		if err == nil && !strings.Contains(out, words) {
			err = errors.New(out)
		}
		return err
	})
}

// A Release and a rollout under way go on with the workers of the version that is current: the next one, the one before again,
// and workers without versions.
func TestAReleaseGoesOnWithTheVersionOfWorkersThatIsCurrent(t *testing.T) {
	t.Parallel()
	at := newHub(t, "versions-hub")
	watcher, err := newConvoy("versions-watcher", "--roles=watcher", "--kubeconfig="+at.hubFile, "--temporal-address="+at.local.Temporal.Address)
	if err != nil {
		t.Fatal(err)
	}
	at.convoy = watcher
	v := &versioned{newSceneAt(t, at), map[string]*convoy{}}
	t.Cleanup(func() { v.must(watcher.stop()) })
	v.must(watcher.start(v.ctx))

	one := v.run("one")
	v.logs(one, "no version is current")
	v.greeting("greeting", "first")
	v.cluster("prod", kubeconfigFor(t, alpha, v.ns))
	v.release("app", "prod", "greeting")
	v.why("app", "the workers are build one of convoy, and Temporal gives work to those that are of no version")
	if one.isReady(v.ctx) == nil {
		t.Error("workers that get no work are ready")
	}
	v.choose("one")
	v.must(one.awaitReady(v.ctx))
	v.awaitDelivered("app")
	v.wantBuild("app", "one")

	v.configMap("checked", map[string]string{"all.yaml": twoPorts})
	v.release("checked", "prod", "checked", func(r *v1alpha1.Release) {
		r.Spec.HealthChecks = []v1alpha1.HealthCheck{{Kind: "Service", Current: "'healthy' in object.metadata.labels"}}
	})
	v.awaitHealthWait("checked", 1)
	two := v.run("two")
	v.logs(two, "version one is current")
	v.choose("two")
	v.must(two.awaitReady(v.ctx))
	v.must(one.stop())
	v.delivers("two", "second")
	v.tamper(v.on(alpha), &corev1.Service{ObjectMeta: v.meta("web")}, `{"metadata":{"labels":{"healthy":"yes"}}}`)
	if r := v.awaitDelivered("checked"); r.Status.Rollout.Number != 1 {
		t.Errorf("the rollout under way became rollout %d", r.Status.Rollout.Number)
	}

	v.run("one")
	v.choose("one")
	v.must(two.stop())
	v.delivers("one", "third")
	v.why("app", "build one of convoy")
	v.must(one.stop())

	plain := v.run("")
	v.choose("")
	v.must(plain.awaitReady(v.ctx))
	v.delivers("", "fourth")
	v.why("app", "is ready")
}
