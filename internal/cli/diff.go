package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/apply"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/render"
)

// comparison is what the command diff is asked for.
type comparison struct {
	settings Settings
	to       string
	live     bool
	exitCode bool
}

func diffCommand(s Settings) *cobra.Command {
	c := comparison{settings: s}
	cmd := &cobra.Command{
		Use: "diff release NAME", Short: "Show what a rollout of a Release would change",
		Long: strings.TrimSpace(`
Compare the render that waits to be rolled out with the one that the last rollout had. Both are kept on the hub, so no target is
asked. --to compares another kept render, as a rollback would deliver it. -f renders the Release of a file, as convoy render does,
and compares that: then no NAME is given, and what the files do not hold is read from the hub.

With --live, the target is asked what would become of its objects: each is sent as a dry run, under the field manager of the Release,
and compared with what is there. So fields that others set, defaults and drift are seen too. Objects that would be pruned are shown
as removed. The target is reached with the credentials of the Cluster, which you must be allowed to read, and from where this command
runs. Give it the flags --default-service-account and --require-service-account that the worker has. Without a render that waits, --live shows how the target differs from the last rollout.

Values of Secrets are shown as ***, with (before) and (after) where they change. With --exit-code, the code is 1 when something
differs, and 2 when the comparison failed.`),
		Example: "  convoy diff release podinfo\n  convoy diff release podinfo --to 4\n  convoy diff release podinfo --live --exit-code\n  convoy diff -f release.yaml --source .",
		Args:    cobra.MaximumNArgs(2),
	}
	flags := newHubFlags(s, cmd.Flags())
	cmd.ValidArgsFunction = flags.complete(releaseKind)
	cmd.Flags().StringVar(&c.to, "to", "", "number of the rollout, or digest of the kept render or the beginning of it, instead of the render that waits")
	cmd.Flags().BoolVar(&c.live, "live", false, "compare with the objects on the target, by dry runs")
	cmd.Flags().BoolVar(&c.exitCode, "exit-code", false, "exit with 1 when something differs, and with 2 after an error")
	s.Render.Bind(cmd.Flags())
	s.Target.Bind(cmd.Flags())
	cmd.MarkFlagsMutuallyExclusive("to", "filename")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		differ, err := c.run(cmd, flags, args)
		switch {
		case err != nil && c.exitCode:
			return &exit{code: 2, err: err}
		case err == nil && differ > 0 && c.exitCode:
			return &exit{code: 1}
		}
		return err
	}
	return cmd
}

// wish is what a Release would have on its target.
type wish struct {
	release *v1alpha1.Release
	content render.Content
	name    string
}

func (c *comparison) run(cmd *cobra.Command, flags *hubFlags, args []string) (int, error) {
	ctx := cmd.Context()
	if c.settings.Render.Given() == (len(args) > 0) {
		return 0, errors.New("give either the NAME of a Release, or a file with one in -f")
	}
	h, err := flags.connect()
	if err != nil {
		return 0, err
	}
	renders := render.NewStore(h)
	w, err := c.wish(ctx, cmd.InOrStdin(), h, renders, args)
	if err != nil {
		return 0, err
	}
	if w == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "no render waits to be rolled out; --to compares another one, and --live the target")
		return 0, nil
	}
	if c.live {
		return c.againstTarget(ctx, cmd, h, w)
	}
	var applied render.Content
	from := "nothing"
	if ref := w.release.Status.RenderRef; ref != nil {
		from = "applied"
		if applied, err = renders.Get(ctx, w.release.Namespace, *ref); err != nil {
			return 0, err
		}
	}
	all := pairs(applied.All(), w.content.All())
	differ, err := compare(cmd.OutOrStdout(), from, w.name, all)
	if err == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s differ between the render of the last rollout and the %s one\n", delivery.Share(differ, len(all), "object"), w.name)
	}
	return differ, err
}

// wish is the other side of the comparison, nil when there is none.
func (c *comparison) wish(ctx context.Context, in io.Reader, h *hub, renders *render.Store, args []string) (*wish, error) {
	if c.settings.Render.Given() {
		return c.ofFile(ctx, in, h)
	}
	name, err := release(args)
	if err != nil {
		return nil, err
	}
	r, err := h.release(ctx, name)
	if err != nil {
		return nil, err
	}
	w := &wish{release: r}
	var ref v1alpha1.RenderRef
	switch {
	case c.to != "":
		w.name = "chosen"
		if ref, err = delivery.ChooseRender(&r.Status, c.to); err != nil {
			return nil, fmt.Errorf("%s: %w", h.named(name), err)
		}
	case r.Status.Pending != nil:
		w.name, ref = "pending", r.Status.Pending.RenderRef
	case c.live && r.Status.RenderRef != nil:
		w.name, ref = "applied", *r.Status.RenderRef
	default:
		return nil, nil
	}
	w.content, err = renders.Get(ctx, r.Namespace, ref)
	return w, err
}

// ofFile renders a file. What the Release has now is told by the hub.
func (c *comparison) ofFile(ctx context.Context, in io.Reader, h *hub) (*wish, error) {
	r, out, err := c.settings.Render.Render(ctx, in, h)
	if err != nil {
		return nil, err
	}
	var known v1alpha1.Release
	err = h.Get(ctx, client.ObjectKeyFromObject(r), &known)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read Release %s/%s: %w", r.Namespace, r.Name, err)
	}
	if apierrors.IsNotFound(err) {
		known.Namespace, known.Name = r.Namespace, r.Name
	}
	known.Spec = r.Spec
	return &wish{release: &known, content: out.Content, name: "rendered"}, nil
}

// againstTarget compares with what is on the target.
func (c *comparison) againstTarget(ctx context.Context, cmd *cobra.Command, h *hub, w *wish) (int, error) {
	preview, err := c.preview(ctx, h, w)
	if err != nil {
		return 0, err
	}
	var all []pair
	for _, change := range preview.Changes {
		if change.Next != nil || w.release.Spec.SyncPolicy.Prune != v1alpha1.PruneNever {
			all = append(all, pair{change.Ref, change.Live, change.Next})
		}
	}
	differ, err := compare(cmd.OutOrStdout(), "live", w.name, all)
	if err != nil {
		return differ, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s differ between the target and the %s render\n", delivery.Share(differ, len(all), "object"), w.name)
	for _, note := range preview.Guessed {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: as it is rendered: the target cannot try it before something else is made or deleted\n", note)
	}
	if len(preview.Failed) == 0 {
		return differ, nil
	}
	for _, failed := range preview.Failed {
		fmt.Fprintln(cmd.ErrOrStderr(), failed)
	}
	return differ, fmt.Errorf("the target would refuse %s", delivery.Share(len(preview.Failed), len(w.content.Objects), "object"))
}

func (c *comparison) preview(ctx context.Context, h *hub, w *wish) (apply.Preview, error) {
	r := w.release
	cluster, err := h.at(r.Namespace).cluster(ctx, r.Spec.ClusterRef.Name)
	if err != nil {
		return apply.Preview{}, err
	}
	id, err := activities.HubID(ctx, h)
	if err != nil {
		return apply.Preview{}, err
	}
	records, err := apply.NewLedger(h).Load(ctx, r)
	if err != nil {
		return apply.Preview{}, err
	}
	record := apply.NewRecord(r, cluster)
	for _, found := range records {
		if delivery.SameCluster(cluster, found.ClusterUID(), found.ClusterID()) {
			record = found
		}
	}
	target, done, err := c.settings.target(ctx, h, cluster, r)
	if err != nil {
		return apply.Preview{}, err
	}
	defer done()
	return apply.DryRun(ctx, target, apply.Request{
		Owner: delivery.Owner{HubID: id, Namespace: r.Namespace, Name: r.Name}, Objects: w.content.Objects, TargetNamespace: w.content.TargetNamespace,
		CreateNamespace: r.Spec.CreateNamespace, Hooks: w.content.HookNames(r), Record: record, Conflicts: r.Spec.SyncPolicy.Conflicts, Recreate: r.Spec.SyncPolicy.Recreate,
	})
}
