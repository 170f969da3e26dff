package render

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// SecretType is the type of the Secrets that keep renders.
const SecretType corev1.SecretType = "convoy.kumodo.io/render"

// Store keeps renders on the hub: compressed, in immutable Secrets named after Release and digest, each below the
// limit of a Secret. It is safe for concurrent use.
type Store struct {
	hub    client.Client
	recent *recent
}

// NewStore makes a Store. hub must read Secrets from the API server and not from a cache: a render that was
// just kept must be found.
func NewStore(hub client.Client) *Store {
	return &Store{hub: hub, recent: newRecent(recentBytes)}
}

// Put keeps a render of the Release and returns its reference. A render that is kept already costs one read (two when
// it has several parts) and no write; a new one costs one write per part. The Secrets go with the Release. An error is a
// terminal RenderFailed when the render is too large to keep, else the wrapped error of the hub.
func (s *Store) Put(ctx context.Context, rel *v1alpha1.Release, out *Output) (v1alpha1.RenderRef, error) {
	ref := v1alpha1.RenderRef{Name: secretName(rel, out.Digest), Digest: out.Digest}
	parts, err := split(out.Canonical)
	if err != nil {
		return ref, err
	}
	kept, err := s.isKept(ctx, rel, ref, parts)
	if err != nil {
		return ref, err
	}
	if !kept {
		// The first part goes last: where it is, the others are.
		for i := range slices.Backward(parts) {
			if err := s.write(ctx, newPart(rel, ref, parts, i)); err != nil {
				return ref, fmt.Errorf("keep render %s: %w", ref.Name, err)
			}
		}
	}
	s.recent.put(recentKey{rel.Namespace, ref}, out.Canonical)
	return ref, nil
}

// Get returns what a kept render holds; the caller may change it. A render that this
// process kept or read a short time ago costs no read. A render that is gone, or that is not what its digest
// says, is a terminal RenderFailed: the next reconcile makes it again. Other errors are the wrapped ones of the hub.
func (s *Store) Get(ctx context.Context, namespace string, ref v1alpha1.RenderRef) (Content, error) {
	key := recentKey{namespace, ref}
	canonical, ok := s.recent.get(key)
	if !ok {
		var err error
		if canonical, err = s.read(ctx, namespace, ref); err != nil {
			return Content{}, err
		}
		s.recent.put(key, canonical)
	}
	content, err := Decode(canonical)
	if err != nil {
		return Content{}, damaged(ref)
	}
	return content, nil
}

// Collect deletes the kept renders of the Release except those in keep. It costs one read when there is nothing
// to delete.
func (s *Store) Collect(ctx context.Context, rel *v1alpha1.Release, keep []v1alpha1.RenderRef) error {
	wanted := make(map[string]bool, len(keep))
	for _, ref := range keep {
		wanted[digestLabel(ref.Digest)] = true
	}
	found, err := s.list(ctx, rel.Namespace, client.MatchingLabels{v1alpha1.LabelReleaseUID: string(rel.UID)})
	if err != nil {
		return fmt.Errorf("list the kept renders: %w", err)
	}
	for i := range found {
		part := &found[i]
		if wanted[part.Labels[v1alpha1.LabelDigest]] {
			continue
		}
		err := s.hub.Delete(ctx, part, client.Preconditions{UID: &part.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete kept render %s: %w", part.Name, err)
		}
	}
	return nil
}

// list finds parts by their labels. Only metadata is read.
func (s *Store) list(ctx context.Context, namespace string, labels client.MatchingLabels) ([]metav1.PartialObjectMetadata, error) {
	list := metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	err := s.hub.List(ctx, &list, client.InNamespace(namespace), labels, client.HasLabels{v1alpha1.LabelDigest})
	return list.Items, err
}

// isKept looks whether every part is on the hub. Only the first is compared: a part cannot be changed, only
// deleted.
func (s *Store) isKept(ctx context.Context, rel *v1alpha1.Release, ref v1alpha1.RenderRef, parts [][]byte) (bool, error) {
	var first corev1.Secret
	err := s.hub.Get(ctx, client.ObjectKey{Namespace: rel.Namespace, Name: ref.Name}, &first)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for render %s: %w", ref.Name, err)
	}
	if !sameContent(&first, newPart(rel, ref, parts, 0)) {
		// Another version of convoy may compress differently; what counts is what comes out.
		_, err := s.read(ctx, rel.Namespace, ref)
		if _, known := failure.As(err); known {
			return false, nil
		}
		return err == nil, err
	}
	if len(parts) == 1 {
		return true, nil
	}
	found, err := s.list(ctx, rel.Namespace, client.MatchingLabels{
		v1alpha1.LabelReleaseUID: string(rel.UID),
		v1alpha1.LabelDigest:     digestLabel(ref.Digest),
	})
	if err != nil {
		return false, fmt.Errorf("look for render %s: %w", ref.Name, err)
	}
	names := make(map[string]bool, len(found))
	for _, part := range found {
		names[part.Name] = true
	}
	for i := range parts {
		if !names[partName(ref.Name, i)] {
			return false, nil
		}
	}
	return true, nil
}

// write creates a part, or replaces one that is not what it should be.
func (s *Store) write(ctx context.Context, part *corev1.Secret) error {
	err := s.hub.Create(ctx, part)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	var there corev1.Secret
	if err := s.hub.Get(ctx, client.ObjectKeyFromObject(part), &there); err != nil {
		return err
	}
	if sameContent(&there, part) {
		return nil
	}
	if err := s.hub.Delete(ctx, &there, client.Preconditions{UID: &there.UID}); err != nil {
		return err
	}
	part.ResourceVersion = ""
	return s.hub.Create(ctx, part)
}

func sameContent(a, b *corev1.Secret) bool {
	return a.Type == b.Type && maps.EqualFunc(a.Data, b.Data, bytes.Equal)
}

// read fetches, joins and verifies the parts of a render.
func (s *Store) read(ctx context.Context, namespace string, ref v1alpha1.RenderRef) ([]byte, error) {
	var joined bytes.Buffer
	for i, count := 0, 1; i < count; i++ {
		var part corev1.Secret
		err := s.hub.Get(ctx, client.ObjectKey{Namespace: namespace, Name: partName(ref.Name, i)}, &part)
		if apierrors.IsNotFound(err) {
			return nil, invalid("the kept render %s is gone; the next reconcile makes it again", ref.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("read render %s: %w", ref.Name, err)
		}
		if part.Type != SecretType {
			return nil, damaged(ref)
		}
		if i == 0 {
			if count = partCount(&part); count == 0 {
				return nil, damaged(ref)
			}
		}
		joined.Write(part.Data[partKey])
	}
	canonical, err := inflate(&joined, maxRenderSize)
	if err != nil {
		return nil, damaged(ref)
	}
	sum := sha256.Sum256(canonical)
	if "sha256:"+hex.EncodeToString(sum[:]) != ref.Digest {
		return nil, damaged(ref)
	}
	return canonical, nil
}

func damaged(ref v1alpha1.RenderRef) error {
	return invalid("the kept render %s is not what its digest says; delete the Secret of this name, and the next reconcile makes it again", ref.Name)
}

// secretName is the name of the first part: the same for the same render of the same Release.
func secretName(rel *v1alpha1.Release, digest string) string {
	sum := sha256.Sum256([]byte(string(rel.UID) + "/" + digest))
	return "render-" + hex.EncodeToString(sum[:16])
}

// digestLabel is the beginning of a digest, as much as a label is given.
func digestLabel(digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return digest[:min(len(digest), 32)]
}
