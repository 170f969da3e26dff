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

// inputs are what a render reads on the hub beside its source.
type inputs struct {
	// patches hold what exists, by the name of the mutation.
	patches map[string][]byte
	// values are those of valuesFrom that exist, in their order.
	values []render.ValuesLayer
	// reads are for the digest of the inputs.
	reads []delivery.Read
	// secrets are the first that name each Secret.
	secrets []wanted
	// missing is the first thing that must exist and does not. It is not told before it is clear that the Secret that
	// lacks it may be read.
	missing error
}

// wanted is one entry of a ConfigMap or Secret, and what in the Release names it, for messages.
type wanted struct {
	by      string
	kind    string
	name    string
	key     string
	missing error // why it is needed; nil when it is not
	take    func(*inputs, []byte)
}

const kindSecret = "Secret"

// entries are the content of a ConfigMap or Secret; nil when it does not exist.
type entries struct {
	data map[string][]byte
	// salt is what only readers of a Secret know: its status shows the digest of the inputs, which is to tell nobody what
	// a short value in it may be.
	salt string
}

// readInputs reads what the mutations and the chart settings of a Release name on the hub, each object once. A Release that
// names nothing costs no request. An expression or template that fails, and a Secret of convoy's own, are terminal failures.
func readInputs(ctx context.Context, hub client.Reader, r *v1alpha1.Release, c *v1alpha1.Cluster) (inputs, error) {
	refs, err := render.PatchesOf(ctx, r.Spec.Mutations, delivery.NewContext(c, r))
	if err != nil {
		return inputs{}, err
	}
	all := make([]wanted, 0, len(refs))
	for _, ref := range refs {
		all = append(all, wanted{
			by: "mutation " + ref.Mutation, kind: string(ref.Kind), name: ref.Name, key: ref.Key,
			take: func(in *inputs, content []byte) { in.patches[ref.Mutation] = content },
		})
	}
	all = append(all, valuesOf(r)...)
	out := inputs{patches: map[string][]byte{}}
	objects := map[[2]string]entries{}
	for _, w := range all {
		id := [2]string{w.kind, w.name}
		found, known := objects[id]
		if !known {
			if found, err = w.read(ctx, hub, r.Namespace); err != nil {
				return inputs{}, err
			}
			objects[id] = found
			if w.kind == kindSecret {
				out.secrets = append(out.secrets, w)
			}
		}
		read := delivery.Read{Kind: w.kind, Name: w.name, Key: w.key}
		content, has := found.data[w.key]
		switch {
		case has:
			w.take(&out, content)
			sum := sha256.Sum256(append([]byte(found.salt), content...))
			read.Digest = hex.EncodeToString(sum[:])
		case out.missing == nil:
			out.missing = w.missing
		}
		out.reads = append(out.reads, read)
	}
	return out, nil
}

// valuesOf are the values that a Release has its chart take from the hub.
func valuesOf(r *v1alpha1.Release) []wanted {
	if r.Spec.Render.Helm == nil {
		return nil
	}
	var all []wanted
	for i, from := range r.Spec.Render.Helm.ValuesFrom {
		key := from.Key
		if key == "" {
			key = defaultValuesKey
		}
		w := wanted{by: fmt.Sprintf("spec.render.helm.valuesFrom[%d]", i), kind: from.Kind, name: from.Name, key: key}
		place := fmt.Sprintf("key %s of %s %s", key, from.Kind, from.Name)
		w.take = func(in *inputs, content []byte) {
			in.values = append(in.values, render.ValuesLayer{Name: place, Content: content, Secret: from.Kind == kindSecret})
		}
		if !from.Optional {
			w.missing = failure.Terminal(v1alpha1.ReasonRenderFailed, nil, "%s: %s does not exist; create it or set optional", w.by, place)
		}
		all = append(all, w)
	}
	return all
}

// defaultValuesKey is the key of values that name none.
const defaultValuesKey = "values.yaml"

func (w wanted) read(ctx context.Context, hub client.Reader, namespace string) (entries, error) {
	key := client.ObjectKey{Namespace: namespace, Name: w.name}
	if w.kind == kindSecret {
		var secret corev1.Secret
		if err := w.readOptional(ctx, hub, key, &secret); err != nil {
			return entries{}, err
		}
		if delivery.OwnsSecret(string(secret.Type)) {
			return entries{}, w.refused("is convoy's own")
		}
		return entries{secret.Data, string(secret.UID) + "/"}, nil
	}
	var cm corev1.ConfigMap
	if err := w.readOptional(ctx, hub, key, &cm); err != nil {
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
func (w wanted) readOptional(ctx context.Context, hub client.Reader, key client.ObjectKey, o client.Object) error {
	err := hub.Get(ctx, key, o)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return fmt.Errorf("read %T %s for %s: %w", o, key.Name, w.by, err)
}

// permit refuses to read a Secret that a Cluster of the namespace names, because a render would show its credentials, and
// values that do not exist.
func (in inputs) permit(ctx context.Context, hub client.Reader, namespace string) error {
	if len(in.secrets) == 0 {
		return in.missing
	}
	var clusters v1alpha1.ClusterList
	if err := hub.List(ctx, &clusters, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list the Clusters of namespace %s: %w", namespace, err)
	}
	for _, w := range in.secrets {
		if cluster := delivery.NamedBy(clusters.Items, w.name); cluster != "" {
			return w.refused("belongs to Cluster " + cluster)
		}
	}
	return in.missing
}

func (w wanted) refused(why string) error {
	return failure.Terminal(v1alpha1.ReasonRenderFailed, nil, "%s: Secret %s %s and is not read; use another Secret", w.by, cut(w.name), why)
}
