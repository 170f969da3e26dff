package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
	"kumodo.io/convoy/internal/render"
)

// patches are what the mutations of a Release read on the hub.
type patches struct {
	// byMutation holds what exists.
	byMutation map[string][]byte
	// reads are for the digest of the inputs.
	reads []delivery.Read
	// secrets are those that name Secrets, one for each Secret.
	secrets []render.PatchRef
}

// entries are the content of a ConfigMap or Secret; nil when it does not exist.
type entries struct {
	data map[string][]byte
	// salt is what only readers of a Secret know: its status shows the digest of the inputs, which is to tell nobody what
	// a short value in it may be.
	salt string
}

// readPatches reads what the mutations of a Release read on the hub, each object once. A Release whose mutations read
// nothing costs no request. An expression or template that fails, and a Secret of convoy's own, are terminal failures.
func (a *Activities) readPatches(ctx context.Context, r *v1alpha1.Release, c *v1alpha1.Cluster) (patches, error) {
	refs, err := render.PatchesOf(ctx, r.Spec.Mutations, delivery.NewContext(c, r))
	if err != nil || len(refs) == 0 {
		return patches{}, err
	}
	out := patches{byMutation: map[string][]byte{}}
	objects := map[[2]string]entries{}
	for _, ref := range refs {
		id := [2]string{string(ref.Kind), ref.Name}
		found, known := objects[id]
		if !known {
			if found, err = a.readEntries(ctx, r.Namespace, ref); err != nil {
				return patches{}, err
			}
			objects[id] = found
			if ref.Kind == v1alpha1.PatchFromSecret {
				out.secrets = append(out.secrets, ref)
			}
		}
		read := delivery.Read{Kind: string(ref.Kind), Name: ref.Name, Key: ref.Key}
		if content, has := found.data[ref.Key]; has {
			out.byMutation[ref.Mutation] = content
			sum := sha256.Sum256(append([]byte(found.salt), content...))
			read.Digest = hex.EncodeToString(sum[:])
		}
		out.reads = append(out.reads, read)
	}
	return out, nil
}

func (a *Activities) readEntries(ctx context.Context, namespace string, ref render.PatchRef) (entries, error) {
	key := client.ObjectKey{Namespace: namespace, Name: ref.Name}
	if ref.Kind == v1alpha1.PatchFromSecret {
		var secret corev1.Secret
		if err := a.readOptional(ctx, key, &secret); err != nil {
			return entries{}, err
		}
		if delivery.OwnsSecret(string(secret.Type)) {
			return entries{}, refused(ref, "is convoy's own")
		}
		return entries{secret.Data, string(secret.UID) + "/"}, nil
	}
	var cm corev1.ConfigMap
	if err := a.readOptional(ctx, key, &cm); err != nil {
		return entries{}, err
	}
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for k, text := range cm.Data {
		data[k] = []byte(text)
	}
	maps.Copy(data, cm.BinaryData)
	return entries{data: data}, nil
}

// readOptional leaves o empty when there is no such object; a name that no object can have is one of those.
func (a *Activities) readOptional(ctx context.Context, key client.ObjectKey, o client.Object) error {
	err := a.Hub.Get(ctx, key, o)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return fmt.Errorf("read %T %s for a mutation: %w", o, key.Name, err)
}

// permitSecrets refuses to read a Secret that a Cluster of the namespace names: a render would show its credentials.
func (a *Activities) permitSecrets(ctx context.Context, r *v1alpha1.Release, p patches) error {
	if len(p.secrets) == 0 {
		return nil
	}
	var clusters v1alpha1.ClusterList
	if err := a.Hub.List(ctx, &clusters, client.InNamespace(r.Namespace)); err != nil {
		return fmt.Errorf("list the Clusters of namespace %s: %w", r.Namespace, err)
	}
	for _, ref := range p.secrets {
		if cluster := delivery.NamedBy(clusters.Items, ref.Name); cluster != "" {
			return refused(ref, "belongs to Cluster "+cluster)
		}
	}
	return nil
}

func refused(ref render.PatchRef, why string) error {
	return failure.Terminal(v1alpha1.ReasonRenderFailed, nil, "mutation %s: Secret %s %s and is not read; use another Secret", ref.Mutation, cut(ref.Name), why)
}
