package activities

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
)

// keepCredentials stores what a probe has just connected with, so that a deletion can clean up after the user's own
// Secret is gone. It is looked at after each good probe, and written when it is another one or somebody removed it.
func (a *Activities) keepCredentials(ctx context.Context, c *v1alpha1.Cluster, conn *connect.Client) error {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: connect.KeptName(c.UID)}}
	_, err := controllerutil.CreateOrUpdate(ctx, a.Hub, secret, func() error {
		secret.Type, secret.Data = v1alpha1.SecretTypeCredentials, conn.Credentials()
		secret.Labels = map[string]string{v1alpha1.LabelClusterUID: string(c.UID)}
		secret.Annotations = map[string]string{v1alpha1.AnnotationCluster: c.Name}
		controllerutil.AddFinalizer(secret, v1alpha1.CredentialsFinalizer)
		return nil
	})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // nothing new can be kept; the deletion goes on with what there is
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err): // a quota, a policy, a permission that is missing
		a.Status.Event(c, true, "CredentialsNotKept", "the hub refuses the Secret that keeps the credentials for the clean-up")
		return nil
	case err != nil:
		return fmt.Errorf("keep the credentials of Cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	return nil
}

// dropCredentials removes what was kept of a Cluster that goes, or is gone. The last one of a namespace takes all with it:
// somebody may have taken a finalizer off, or brought a Secret back from a backup.
func (a *Activities) dropCredentials(ctx context.Context, k delivery.Key) error {
	var others v1alpha1.ClusterList
	if err := a.Hub.List(ctx, &others, client.InNamespace(k.Namespace), client.Limit(2)); err != nil {
		return fmt.Errorf("list the Clusters of namespace %s: %w", k.Namespace, err)
	}
	last := !slices.ContainsFunc(others.Items, func(c v1alpha1.Cluster) bool { return string(c.UID) != k.UID })
	var kept client.ListOption = client.MatchingLabels{v1alpha1.LabelClusterUID: k.UID}
	if last {
		kept = client.HasLabels{v1alpha1.LabelClusterUID}
	}
	var secrets corev1.SecretList
	if err := a.Hub.List(ctx, &secrets, client.InNamespace(k.Namespace), kept); err != nil {
		return fmt.Errorf("list the kept credentials of namespace %s: %w", k.Namespace, err)
	}
	for i := range secrets.Items {
		if err := a.dropSecret(ctx, &secrets.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *Activities) dropSecret(ctx context.Context, s *corev1.Secret) error {
	if s.Type != v1alpha1.SecretTypeCredentials {
		return nil
	}
	if err := a.removeFinalizer(ctx, s, v1alpha1.CredentialsFinalizer); err != nil {
		return err
	}
	err := a.Hub.Delete(ctx, s, client.Preconditions{UID: &s.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the kept credentials %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}
