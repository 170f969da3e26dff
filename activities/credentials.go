package activities

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/connect"
	"kumodo.io/convoy/internal/delivery"
)

// keepCredentials stores what a probe has just connected with, so that a deletion can clean up after the user's own
// Secret is gone. The hub is asked once for each client, not for each probe.
func (a *Activities) keepCredentials(ctx context.Context, c *v1alpha1.Cluster, conn *connect.Client) error {
	data := conn.Unkept()
	if data == nil {
		return nil
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: connect.KeptName(c.UID)}}
	_, err := controllerutil.CreateOrUpdate(ctx, a.Hub, secret, func() error {
		secret.Type, secret.Data = v1alpha1.SecretTypeCredentials, data
		secret.Labels = map[string]string{v1alpha1.LabelClusterUID: string(c.UID)}
		secret.Annotations = map[string]string{v1alpha1.AnnotationCluster: c.Name}
		controllerutil.AddFinalizer(secret, v1alpha1.CredentialsFinalizer)
		return nil
	})
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // nothing new can be kept; the deletion goes on with what there is
	case err != nil:
		return fmt.Errorf("keep the credentials of Cluster %s/%s: %w", c.Namespace, c.Name, err)
	}
	conn.MarkKept()
	return nil
}

// dropCredentials removes what was kept of a Cluster that goes, or is gone.
func (a *Activities) dropCredentials(ctx context.Context, k delivery.Key) error {
	secret := &corev1.Secret{}
	name := types.NamespacedName{Namespace: k.Namespace, Name: connect.KeptName(types.UID(k.UID))}
	if err := a.Hub.Get(ctx, name, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("read the kept credentials of Cluster %s: %w", k, err)
	}
	if err := a.removeFinalizer(ctx, secret, v1alpha1.CredentialsFinalizer); err != nil {
		return err
	}
	err := a.Hub.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the kept credentials of Cluster %s: %w", k, err)
	}
	return nil
}
