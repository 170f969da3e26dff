package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	temporalclient "go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/render"
)

// server is the one control plane of this package, which is hub and target at once; it starts when a test needs it.
var (
	server = &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "deploy", "crd")}, ErrorIfCRDPathMissing: true}
	start  = sync.OnceValues(server.Start)
)

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	code := m.Run()
	if server.Config != nil {
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "the control plane did not stop:", err)
		}
	}
	os.Exit(code)
}

// world is a namespace of its own on the hub.
type world struct {
	*testing.T
	ctx context.Context
	hub
	file string // the kubeconfig
	// rendered is what a file in -f renders to.
	rendered []*unstructured.Unstructured
	// accounts are what the operator says that Releases act as.
	accounts delivery.ServiceAccounts
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config, err := start()
	if err != nil {
		t.Fatalf("start the control plane: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	w := &world{T: t, ctx: ctx, file: filepath.Join(t.TempDir(), "kubeconfig")}
	w.check(os.WriteFile(w.file, server.KubeConfig, 0o600))
	scheme, err := newScheme()
	w.check(err)
	w.WithWatch, err = client.NewWithWatch(config, client.Options{Scheme: scheme})
	w.check(err)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}
	w.check(w.Create(ctx, ns))
	w.namespace = ns.Name
	return w
}

func (w *world) check(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) settings() Settings {
	file := ""
	return Settings{
		UserAgent: "convoy/test",
		Temporal: TemporalFlags{Bind: func(*pflag.FlagSet) {}, Options: func() (temporalclient.Options, error) {
			return temporalclient.Options{HostPort: "127.0.0.1:1", Namespace: "default"}, nil
		}},
		Target: TargetFlags{Bind: func(*pflag.FlagSet) {}, Options: func() (dial.Policy, connect.Options, delivery.ServiceAccounts, error) {
			return dial.Policy{AllowLoopback: true}, connect.Options{}, w.accounts, nil
		}},
		Render: RenderFlags{
			Bind:  func(f *pflag.FlagSet) { f.StringVarP(&file, "filename", "f", "", "") },
			Given: func() bool { return file != "" },
			Render: func(context.Context, io.Reader, client.Reader) (*v1alpha1.Release, *render.Output, error) {
				r := newRelease(w.namespace)
				r.Name = file
				return r, &render.Output{Content: render.Content{Objects: w.rendered}}, nil
			},
		},
	}
}

// raw runs the program without anything but these arguments.
func (w *world) raw(args ...string) (out, errOut string) {
	w.Helper()
	out, errOut, _ = w.execute(args)
	return out, errOut
}

// run runs a command in the namespace of the world.
func (w *world) run(args ...string) (out, errOut string, code int) {
	w.Helper()
	return w.execute(append(args, "--kubeconfig="+w.file, "--namespace="+w.namespace))
}

func (w *world) execute(args []string) (out, errOut string, code int) {
	w.Helper()
	root := &cobra.Command{Use: "convoy", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(Commands(w.settings())...)
	var stdout, stderr bytes.Buffer
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(args)
	code = Report(&stderr, "convoy", root.ExecuteContext(w.ctx))
	return stdout.String(), stderr.String(), code
}

// want runs a command that is to end well, and to print this.
func (w *world) want(printed string, args ...string) {
	w.Helper()
	out, errOut, code := w.run(args...)
	if code != 0 || out != strings.ReplaceAll(printed, "NS", w.namespace) {
		w.Errorf("convoy %s: code %d, printed %q and %q, want %q", strings.Join(args, " "), code, out, errOut, printed)
	}
}

// refused runs a command that is to fail with a message that holds this, and to print nothing else.
func (w *world) refused(message string, args ...string) {
	w.Helper()
	out, errOut, code := w.run(args...)
	if code != 1 || out != "" || !strings.Contains(errOut, strings.ReplaceAll(message, "NS", w.namespace)) {
		w.Errorf("convoy %s: code %d, printed %q and %q, want %q", strings.Join(args, " "), code, out, errOut, message)
	}
}

func newRelease(namespace string) *v1alpha1.Release {
	return &v1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "app"},
		Spec: v1alpha1.ReleaseSpec{
			ClusterRef: v1alpha1.ClusterRef{Name: "east"}, Source: v1alpha1.Source{ConfigMap: &v1alpha1.ConfigMapSource{Name: "app"}},
			TargetNamespace: namespace,
		},
	}
}

// release creates the Release app, with a status.
func (w *world) release(status func(*v1alpha1.Release)) *v1alpha1.Release {
	w.Helper()
	r := newRelease(w.namespace)
	w.check(w.Create(w.ctx, r))
	w.status(status)
	return r
}

// status changes the status of the Release app, as convoy does.
func (w *world) status(change func(*v1alpha1.Release)) {
	w.Helper()
	r := w.now()
	before := r.DeepCopy()
	change(r)
	w.check(w.Status().Patch(w.ctx, r, client.MergeFrom(before)))
}

// now is the Release app as it is.
func (w *world) now() *v1alpha1.Release {
	w.Helper()
	r, err := w.hub.release(w.ctx, "app")
	w.check(err)
	return r
}

// ready sets the condition Ready, about the present generation.
func ready(r *v1alpha1.Release, status metav1.ConditionStatus, reason, message string) {
	r.Status.ObservedGeneration = r.Generation
	r.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(time.Now()),
	}}
}

func digest(begin string) string { return "sha256:" + begin + strings.Repeat("0", 64-len(begin)) }

func ref(begin string) v1alpha1.RenderRef {
	return v1alpha1.RenderRef{Name: "render-" + begin, Digest: digest(begin)}
}

// rolled is a Release after a rollout of render aa1 and one of bb2.
func rolled(r *v1alpha1.Release) {
	start := metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	end := metav1.NewTime(start.Add(7 * time.Second))
	last := ref("bb2")
	r.Status.RenderRef, r.Status.PreviousRenderRefs = &last, []v1alpha1.RenderRef{ref("aa1")}
	r.Status.Rollout = &v1alpha1.RolloutStatus{
		Number: 2, WorkflowID: "rollout/x/app/2", Phase: v1alpha1.RolloutSucceeded, Digest: digest("bb2"), StartTime: end, Revision: "v2",
	}
	r.Status.History = []v1alpha1.RolloutRecord{
		{
			Number: 2, Phase: v1alpha1.RolloutSucceeded, Digest: digest("bb2"), Revision: "v2", Cluster: "east", Trigger: v1alpha1.TriggerRevision,
			Objects: 3, Approval: &v1alpha1.ApprovalUse{Name: "app-1", By: "jo"}, StartTime: end, EndTime: end,
		},
		{Number: 1, Phase: v1alpha1.RolloutSucceeded, Digest: digest("aa1"), Revision: "v1", Cluster: "east", Trigger: v1alpha1.TriggerCreated, Objects: 2, StartTime: start, EndTime: end},
	}
	ready(r, metav1.ConditionTrue, v1alpha1.ReasonDelivered, "rollout 2 applied 3 objects")
}

// pending adds a render that waits for an approval.
func pending(r *v1alpha1.Release) {
	r.Status.Pending = &v1alpha1.PendingRender{
		RenderRef: ref("cc3"), Reason: v1alpha1.ReasonAwaitingApproval, Message: "rollout 3 waits for an Approval", Revision: "v3",
		Since: metav1.NewTime(time.Date(2026, 5, 1, 12, 1, 0, 0, time.UTC)),
	}
	ready(r, metav1.ConditionUnknown, v1alpha1.ReasonAwaitingApproval, "rollout 3 waits for an Approval")
}
