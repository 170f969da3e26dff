package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/api/v1alpha1"
)

// The objects on the hub, and what they deliver. Cluster and Secret are those of deploy/samples/cluster.yaml.
const (
	namespace       = "default"
	clusterName     = "convoy-managed"
	releaseName     = "podinfo"
	targetNamespace = "podinfo"
	deploymentName  = "podinfo"
	roleKey         = "role" // in the metadata of the Cluster, and as a label on the target
)

// key is the key of an object in the namespace of the demo on the hub.
func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// register writes the sample Cluster and its Secret, and waits for the probe.
func (d *demo) register(ctx context.Context) error {
	sample := filepath.Join(d.root, "deploy", "samples", "cluster.yaml")
	content, err := os.ReadFile(sample)
	if err != nil {
		return err
	}
	cluster := &v1alpha1.Cluster{}
	if err := yaml.UnmarshalStrict(content, cluster); err != nil {
		return fmt.Errorf("read %s: %w", sample, err)
	}
	if cluster.Spec.Agentless == nil || cluster.Spec.Agentless.Auth.Kubeconfig == nil {
		return fmt.Errorf("%s names no kubeconfig", sample)
	}
	ref := cluster.Spec.Agentless.Auth.Kubeconfig.SecretRef
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: ref.Name},
		Data:       map[string][]byte{ref.Key: d.target0().Kubeconfig()},
	}
	if err := d.hub.Create(ctx, secret); err != nil {
		return err
	}
	if err := d.hub.Create(ctx, cluster); err != nil {
		return err
	}
	d.out.detail("applied Secret %s and Cluster %s (deploy/samples/cluster.yaml)", secret.Name, cluster.Name)
	if cluster, err = d.awaitCluster(ctx, metav1.ConditionTrue, v1alpha1.ReasonReachable); err != nil {
		return err
	}
	d.out.detail("probed: Ready=True, Kubernetes %s, %d API groups", cluster.Status.KubernetesVersion, len(cluster.Status.APIGroups))
	return nil
}

// deliver commits the application, writes the Release, and waits until the application is healthy on the target.
func (d *demo) deliver(ctx context.Context) error {
	commit, err := d.commitApp(ctx)
	if err != nil {
		return err
	}
	d.out.detail("committed podinfo to %s as %.12s", d.app.URL, commit)
	if err := d.hub.Create(ctx, newRelease(d.app.URL)); err != nil {
		return err
	}
	d.out.detail("applied Release %s; a mutation puts the Cluster's %s on the Deployment", releaseName, roleKey)
	d.release, err = d.awaitDelivered(ctx, func(r *v1alpha1.Release) error { return atCommit(r, commit) })
	if err != nil {
		return err
	}
	d.out.detail("delivered: rollout %d, %d objects, %s", d.release.Status.Rollout.Number, d.release.Status.Inventory.Objects, d.release.Status.Source.Revision)
	cluster := &v1alpha1.Cluster{}
	if err := d.hub.Get(ctx, key(clusterName), cluster); err != nil {
		return err
	}
	return d.checkRole(ctx, string(cluster.Spec.Metadata[roleKey]))
}

// newRelease is the Release of the demo.
func newRelease(url string) *v1alpha1.Release {
	return &v1alpha1.Release{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: releaseName},
		Spec: v1alpha1.ReleaseSpec{
			ClusterRef:      v1alpha1.ClusterRef{Name: clusterName},
			Source:          v1alpha1.Source{Git: &v1alpha1.GitSource{URL: url, Ref: v1alpha1.GitRef{Branch: "main"}, Path: appFolder}},
			TargetNamespace: targetNamespace, CreateNamespace: true,
			Mutations: []v1alpha1.Mutation{{
				Name:   "say-role",
				Target: v1alpha1.MutationTarget{Group: "apps", Kind: "Deployment", Name: deploymentName},
				Patch:  v1alpha1.Patch{Type: v1alpha1.PatchMerge, Template: "metadata:\n  labels:\n    role: {{ .cluster.role }}\n"},
			}},
			// The Go types write zero durations out, which the schema refuses: the defaults, spelled.
			SyncPolicy:     v1alpha1.SyncPolicy{Interval: metav1.Duration{Duration: time.Hour}, Timeout: metav1.Duration{Duration: 5 * time.Minute}},
			DeletionPolicy: v1alpha1.ReleaseDeletionPolicy{Timeout: metav1.Duration{Duration: 5 * time.Minute}},
		},
	}
}

// atCommit says when the source of a Release is not a commit.
func atCommit(r *v1alpha1.Release, commit string) error {
	if r.Status.Source == nil || !strings.HasSuffix(r.Status.Source.Revision, commit) {
		return fmt.Errorf("its source is not at %.12s", commit)
	}
	return nil
}

// checkRole reads the label that the mutation puts on the Deployment.
func (d *demo) checkRole(ctx context.Context, want string) error {
	deployment, err := d.deployment(ctx)
	if err != nil {
		return err
	}
	if got := deployment.Labels[roleKey]; got != want {
		return fmt.Errorf("the label %s of the Deployment on the target is %q, not %q", roleKey, got, want)
	}
	d.out.detail("on the target: Deployment %s with the label %s=%s", deployment.Name, roleKey, want)
	return nil
}

// deployment is the application's Deployment on the target.
func (d *demo) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	err := d.target.Get(ctx, types.NamespacedName{Namespace: targetNamespace, Name: deploymentName}, deployment)
	if err != nil {
		return nil, fmt.Errorf("read the Deployment on the target: %w", err)
	}
	return deployment, nil
}
