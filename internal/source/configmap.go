package source

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/failure"
)

// configMapKey finds a bundle of a ConfigMap in the cache.
type configMapKey struct{ namespace, name, revision string }

func (s *Sources) readConfigMap(ctx context.Context, namespace, name string) (*Bundle, error) {
	readCtx, cancel := context.WithTimeout(ctx, s.limits.FetchTimeout)
	defer cancel()
	var cm corev1.ConfigMap
	err := s.hub.Get(readCtx, client.ObjectKey{Namespace: namespace, Name: name}, &cm)
	switch {
	case apierrors.IsNotFound(err):
		return nil, failure.Transient(v1alpha1.ReasonSourceNotFound, err, "ConfigMap %s does not exist; create it or correct spec.source.configMap", name)
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, failure.Transient(v1alpha1.ReasonSourceFailed, err, "ConfigMap %s could not be read from the hub", name)
	}
	files := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for key, text := range cm.Data {
		files[key] = []byte(text)
	}
	maps.Copy(files, cm.BinaryData)
	digest := digestOf(files)
	b := &Bundle{Revision: digest, Digest: digest, Files: files}
	s.cache.put(configMapKey{namespace, name, b.Revision}, b, b.size())
	return b, nil
}

func (s *Sources) openConfigMap(ctx context.Context, namespace, name, revision string) (*Bundle, error) {
	if b, ok := cached[*Bundle](s.cache, configMapKey{namespace, name, revision}); ok {
		return b, nil
	}
	b, err := s.readConfigMap(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	if b.Revision != revision {
		return nil, failure.Transient(v1alpha1.ReasonSourceNotFound, nil, "ConfigMap %s moved on while it was being delivered", name)
	}
	return b, nil
}
