package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"helm.sh/helm/v4/pkg/chart/common"
	"k8s.io/apimachinery/pkg/util/validation"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/activities"
	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/dial"
	"kumodo.io/convoy/internal/render"
	"kumodo.io/convoy/internal/source"
)

// rendering is what the command render is asked for.
type rendering struct {
	config      // for the flags of sources and connections
	Files       []string
	ClusterFile string
	Folder      string
	KubeVersion string
	APIVersions []string
	Output      string
}

func renderCommand() *cobra.Command {
	var r rendering
	cmd := &cobra.Command{
		Use:   "render -f release.yaml",
		Short: "Print what a Release renders to, without a hub or Temporal",
		Long: strings.TrimSpace(`
Print the objects that a Release renders to, and on stderr the digest, which is the one that the controller
writes to status.renderRef.digest.

The files hold the Release, its Cluster, and the ConfigMaps and Secrets that it reads, as YAML or JSON with any number of
documents; - is the standard input. The source is fetched as the controller does, or taken from a folder: then the folder
stands for the repository, artifact, chart or ConfigMap, and the path in the Release counts within it.

A chart is told what the status of the Cluster says that it serves, or what --kube-version and --api-versions say. The status
knows groups and versions; a chart that asks for a kind, as in apps/v1/Deployment, needs the flag.`),
		Example: `  convoy render -f release.yaml -f values.yaml --cluster-file cluster.yaml --source .
  kubectl get release podinfo -o yaml | convoy render -f - --source .`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	r.bind(cmd.Flags())
	cmd.Flags().StringVarP(&r.Output, "output", "o", "yaml", "yaml or json")
	_ = cmd.MarkFlagRequired("filename")
	return cmd
}

// bind binds what says how to render.
func (r *rendering) bind(f *pflag.FlagSet) {
	f.StringArrayVarP(&r.Files, "filename", "f", nil, "file with the Release, and with what it reads; repeatable")
	f.StringVar(&r.ClusterFile, "cluster-file", "", "file with the Cluster")
	f.StringVar(&r.Folder, "source", "", "folder that stands for the source; else the source is fetched")
	f.StringVar(&r.KubeVersion, "kube-version", "", "version of Kubernetes that a chart is told, such as v1.37.2; else that of the Cluster's status")
	f.StringSliceVar(&r.APIVersions, "api-versions", nil, "what a chart is told to be served besides, such as apps/v1 or apps/v1/Deployment; comma-separated, repeatable")
	r.bindDial(f)
	r.bindSources(f)
	r.bindBuilds(f)
}

func (r *rendering) run(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	if r.Output != "yaml" && r.Output != "json" {
		return fmt.Errorf("--output: %q is neither yaml nor json", r.Output)
	}
	done, err := r.render(ctx, in, nil)
	if err != nil {
		return err
	}
	if done.cluster.Spec.ConnectionMode == "" { // which every Cluster has
		_, _ = fmt.Fprintf(errOut, "Cluster %s is not given, so its metadata is empty; name its file in --cluster-file\n", done.cluster.Name)
	}
	if err := r.print(out, done.Output); err != nil {
		return err
	}
	report(errOut, done.bundle, done.Output)
	return nil
}

// outcome is a render of files.
type outcome struct {
	*render.Output
	release *v1alpha1.Release
	cluster *v1alpha1.Cluster
	bundle  *source.Bundle
}

// render renders the Release of the files. What they do not hold is read from hub, if there is one.
func (r *rendering) render(ctx context.Context, in io.Reader, hub client.Reader) (*outcome, error) {
	if err := r.Builds.Validate(); err != nil {
		return nil, err
	}
	objects, err := readFiles(append(r.Files, r.clusterFiles()...), in)
	if err != nil {
		return nil, err
	}
	if err := objects.refuseTwice(); err != nil {
		return nil, err
	}
	release, cluster, err := objects.subject()
	if err != nil {
		return nil, err
	}
	reader := client.Reader(objects)
	if hub != nil {
		reader = layered{objects, hub}
		if err := completed(ctx, hub, release, cluster); err != nil {
			return nil, err
		}
	}
	if r.KubeVersion != "" {
		if _, err := utilversion.ParseSemantic(r.KubeVersion); err != nil {
			return nil, fmt.Errorf("--kube-version: %q is no version such as v1.37.2", r.KubeVersion)
		}
		cluster.Status.KubernetesVersion = r.KubeVersion
	}
	bundle, err := r.bundle(ctx, reader, release)
	if err != nil {
		return nil, err
	}
	out, _, err := activities.Render(ctx, reader, activities.RenderRequest{
		Release: release, Cluster: cluster, Bundle: bundle, Builds: render.NewBuilds(r.Builds), Served: r.served,
	})
	if err != nil {
		return nil, err
	}
	return &outcome{out, release, cluster, bundle}, nil
}

// completed adds to what files hold what the hub knows: the Cluster that they do not hold, and how the Release is rendered.
func completed(ctx context.Context, hub client.Reader, release *v1alpha1.Release, cluster *v1alpha1.Cluster) error {
	var known v1alpha1.Release
	err := hub.Get(ctx, client.ObjectKeyFromObject(release), &known)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read Release %s/%s: %w", release.Namespace, release.Name, err)
	}
	if release.Status.Render == nil {
		release.Status.Render = known.Status.Render
	}
	if cluster.Spec.ConnectionMode != "" {
		return nil
	}
	if err := hub.Get(ctx, client.ObjectKeyFromObject(cluster), cluster); err != nil {
		return fmt.Errorf("read Cluster %s/%s, which the files do not hold: %w", cluster.Namespace, cluster.Name, err)
	}
	return nil
}

func (r *rendering) clusterFiles() []string {
	if r.ClusterFile == "" {
		return nil
	}
	return []string{r.ClusterFile}
}

// bundle is the source of a Release.
func (r *rendering) bundle(ctx context.Context, hub client.Reader, release *v1alpha1.Release) (*source.Bundle, error) {
	if r.Folder != "" {
		b, err := source.FromFolder(r.Folder, release.Spec.Source, r.Sources)
		if err != nil {
			return nil, fmt.Errorf("--source %s: %w", r.Folder, err)
		}
		return b, nil
	}
	return source.New(hub, dial.New(r.Dial), r.Sources).Fetch(ctx, release.Namespace, release.Spec.Source)
}

// served is what a chart is told of its Cluster. Without groups in the status it is what Helm's library knows, to which the
// flag adds as to a status: a list of the flag alone would tell the chart that not even v1 is served.
func (r *rendering) served(_ context.Context, c *v1alpha1.Cluster) (connect.APIs, error) {
	var apis connect.APIs
	if len(c.Status.APIGroups) == 0 {
		apis.Versions = slices.Clone(common.DefaultCapabilities.APIVersions)
	}
	for _, g := range c.Status.APIGroups {
		for _, v := range g.Versions {
			apis.Versions = append(apis.Versions, strings.TrimPrefix(g.Name+"/"+v, "core/"))
		}
		if g.Failing {
			apis.Failing = append(apis.Failing, g.Name)
		}
	}
	apis.Versions = append(apis.Versions, r.APIVersions...)
	slices.Sort(apis.Versions)
	apis.Versions = slices.Compact(apis.Versions)
	return apis, nil
}

// print writes the objects, and those of the hooks.
func (r *rendering) print(out io.Writer, rendered *render.Output) error {
	for _, o := range rendered.All() {
		text, err := o.MarshalJSON()
		if err == nil && r.Output == "yaml" {
			text, err = yaml.JSONToYAML(text)
			text = append([]byte("---\n"), text...)
		}
		if err != nil {
			return fmt.Errorf("print %s %s: %w", o.GetKind(), o.GetName(), err)
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// report writes what is known besides the objects.
func report(out io.Writer, bundle *source.Bundle, rendered *render.Output) {
	_, _ = fmt.Fprintf(out, "revision %s\n%s of %d objects\ndigest %s\n", bundle.Revision, rendered.Type, len(rendered.Objects), rendered.Digest)
	for _, h := range rendered.Hooks {
		_, _ = fmt.Fprintf(out, "hook %s for %s\n", h.Name, strings.Join(h.Events, ", "))
	}
	for _, name := range rendered.Skipped {
		_, _ = fmt.Fprintf(out, "skipped %s\n", name)
	}
	for _, m := range rendered.Mutations {
		switch {
		case m.Skipped != "":
			_, _ = fmt.Fprintf(out, "mutation %s was skipped: %s\n", m.Name, m.Skipped)
		case m.Matched == 0:
			_, _ = fmt.Fprintf(out, "mutation %s matched nothing\n", m.Name)
		}
	}
}

// refuseTwice fails for an object that the files hold more than once: a hub holds one, and nothing says which is meant.
func (o objects) refuseTwice() error {
	seen := map[string]bool{}
	for _, object := range o {
		name := fmt.Sprintf("%s %s/%s", object.GetObjectKind().GroupVersionKind().Kind, object.GetNamespace(), object.GetName())
		if seen[name] {
			return fmt.Errorf("the files hold %s more than once; give it once", name)
		}
		seen[name] = true
	}
	return nil
}

// subject gives the one Release and its Cluster, which is one without metadata when it is not given.
func (o objects) subject() (*v1alpha1.Release, *v1alpha1.Cluster, error) {
	var release *v1alpha1.Release
	for _, object := range o {
		r, ok := object.(*v1alpha1.Release)
		switch {
		case !ok:
		case release != nil:
			return nil, nil, fmt.Errorf("the files hold more than one Release: %s and %s; give one at a time", release.Name, r.Name)
		default:
			release = r
		}
	}
	if release == nil {
		return nil, nil, fmt.Errorf("the files hold no Release")
	}
	if len(validation.IsDNS1123Subdomain(release.Name)) > 0 {
		return nil, nil, fmt.Errorf("the Release has no valid metadata.name")
	}
	cluster := &v1alpha1.Cluster{}
	cluster.Namespace, cluster.Name = release.Namespace, cmp.Or(release.Spec.ClusterRef.Name, "none")
	for _, object := range o {
		if c, ok := object.(*v1alpha1.Cluster); ok && c.Name == cluster.Name && c.Namespace == release.Namespace {
			return release, c, nil
		}
	}
	for _, object := range o {
		if c, ok := object.(*v1alpha1.Cluster); ok {
			return nil, nil, fmt.Errorf("the Release is for Cluster %s/%s, and the files hold Cluster %s/%s", release.Namespace, cluster.Name, c.Namespace, c.Name)
		}
	}
	return release, cluster, nil
}
