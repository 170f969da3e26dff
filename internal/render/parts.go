package render

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kumodo.io/convoy/api/v1alpha1"
)

// The bounds of a kept render. A Secret holds at most 1 MiB of data.
const (
	partBytes     = 1000 << 10
	maxParts      = 64
	maxRenderSize = 256 << 20 // uncompressed
)

// The keys of a part: its bytes, and in the first part how many parts there are.
const (
	partKey  = "render.gz"
	countKey = "parts"
)

// split compresses a render and cuts it into parts. The same render gives the same parts.
func split(canonical []byte) ([][]byte, error) {
	if len(canonical) > maxRenderSize {
		return nil, invalid("the render is too large to be kept: at most %d MiB; split the Release", maxRenderSize>>20)
	}
	var compressed bytes.Buffer
	w := gzip.NewWriter(&compressed) // without a time in its header
	if _, err := w.Write(canonical); err != nil {
		return nil, fmt.Errorf("compress the render: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress the render: %w", err)
	}
	if compressed.Len() > maxParts*partBytes {
		return nil, invalid("the render is too large to be kept: at most %d MiB compressed; split the Release", maxParts*partBytes>>20)
	}
	var parts [][]byte
	for compressed.Len() > 0 {
		parts = append(parts, bytes.Clone(compressed.Next(partBytes)))
	}
	return parts, nil
}

// inflate undoes the compression, up to limit bytes.
func inflate(compressed io.Reader, limit int) ([]byte, error) {
	r, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, err
	}
	canonical, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return nil, err
	}
	if len(canonical) > limit {
		return nil, errors.New("too large")
	}
	return canonical, r.Close()
}

// newPart makes the Secret of the part with the index.
func newPart(rel *v1alpha1.Release, ref v1alpha1.RenderRef, parts [][]byte, index int) *corev1.Secret {
	immutable := true
	part := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rel.Namespace,
			Name:      partName(ref.Name, index),
			Labels: map[string]string{
				v1alpha1.LabelReleaseUID: string(rel.UID),
				v1alpha1.LabelDigest:     digestLabel(ref.Digest),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Release", Name: rel.Name, UID: rel.UID,
			}},
		},
		Type:      SecretType,
		Immutable: &immutable,
		Data:      map[string][]byte{partKey: parts[index]},
	}
	if index == 0 {
		part.Data[countKey] = []byte(strconv.Itoa(len(parts)))
	}
	return part
}

func partName(first string, index int) string {
	if index == 0 {
		return first
	}
	return first + "-" + strconv.Itoa(index)
}

// partCount is how many parts the render of this first part has, 0 when that cannot be.
func partCount(first *corev1.Secret) int {
	n, err := strconv.Atoi(string(first.Data[countKey]))
	if err != nil || n < 1 || n > maxParts {
		return 0
	}
	return n
}
