package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"kumodo.io/convoy/api/v1alpha1"
)

// objects are those of files, which stand for a hub.
type objects []client.Object

// readFiles reads all documents of files; the name - is in.
func readFiles(names []string, in io.Reader) (objects, error) {
	var all objects
	for _, name := range names {
		if name == "-" {
			found, err := readDocuments("standard input", in)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := readDocuments(name, bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func readDocuments(name string, in io.Reader) (objects, error) {
	var all objects
	docs := utilyaml.NewYAMLReader(bufio.NewReader(in))
	for n := 1; ; n++ {
		text, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", name, n, err)
		}
		o, err := readDocument(text)
		if err != nil {
			return nil, fmt.Errorf("%s, document %d: %w", name, n, err)
		}
		if o != nil {
			all = append(all, o)
		}
	}
}

// readDocument reads one object strictly: a field that is not known would be left out of the render unseen.
func readDocument(text []byte) (client.Object, error) {
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal(text, &meta); err != nil {
		return nil, errors.New("it is no YAML or JSON object")
	}
	var o client.Object
	switch meta.GroupVersionKind() {
	case schema.GroupVersionKind{}:
		if len(bytes.TrimSpace(text)) == 0 || bytes.Equal(bytes.TrimSpace(text), []byte("---")) {
			return nil, nil
		}
		return nil, errors.New("it has no apiVersion and kind")
	case v1alpha1.GroupVersion.WithKind("Release"):
		o = &v1alpha1.Release{}
	case v1alpha1.GroupVersion.WithKind("Cluster"):
		o = &v1alpha1.Cluster{}
	case corev1.SchemeGroupVersion.WithKind("ConfigMap"):
		o = &corev1.ConfigMap{}
	case corev1.SchemeGroupVersion.WithKind("Secret"):
		o = &corev1.Secret{}
	default:
		return nil, fmt.Errorf("it is a %s of %s; a render reads a Release, a Cluster, ConfigMaps and Secrets", meta.Kind, meta.APIVersion)
	}
	if err := decodeStrictly(text, o); err != nil {
		if meta.Kind == "Secret" { // whose values the error may quote
			return nil, errors.New("it is no valid Secret")
		}
		return nil, err
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(metav1.NamespaceDefault)
	}
	if s, ok := o.(*corev1.Secret); ok {
		for key, value := range s.StringData {
			if s.Data == nil {
				s.Data = map[string][]byte{}
			}
			s.Data[key] = []byte(value)
		}
	}
	return o, nil
}

// decodeStrictly fails for a key that is set twice and for a field that is not known, which it names with its path.
func decodeStrictly(text []byte, o client.Object) error {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(asJSON, o)
	return errors.Join(append(strict, err)...)
}

// Get implements client.Reader.
func (o objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	for _, object := range o {
		if client.ObjectKeyFromObject(object) != key {
			continue
		}
		switch into := into.(type) {
		case *corev1.Secret:
			if s, ok := object.(*corev1.Secret); ok {
				s.DeepCopyInto(into)
				return nil
			}
		case *corev1.ConfigMap:
			if cm, ok := object.(*corev1.ConfigMap); ok {
				cm.DeepCopyInto(into)
				return nil
			}
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, key.Name)
}

// List implements client.Reader: it gives Clusters.
func (o objects) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var options client.ListOptions
	options.ApplyOptions(opts)
	clusters, ok := list.(*v1alpha1.ClusterList)
	if !ok {
		return fmt.Errorf("files do not list %T", list)
	}
	for _, object := range o {
		if c, ok := object.(*v1alpha1.Cluster); ok && c.Namespace == options.Namespace {
			clusters.Items = append(clusters.Items, *c)
		}
	}
	return nil
}

// layered reads what files do not hold from the hub.
type layered struct {
	objects
	hub client.Reader
}

// Get implements client.Reader.
func (l layered) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	err := l.objects.Get(ctx, key, into, opts...)
	if apierrors.IsNotFound(err) {
		return l.hub.Get(ctx, key, into, opts...)
	}
	return err
}

// List implements client.Reader: it gives the Clusters of both, as each of them keeps its Secrets to itself.
func (l layered) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var ofFiles v1alpha1.ClusterList
	if err := l.objects.List(ctx, &ofFiles, opts...); err != nil {
		return err
	}
	if err := l.hub.List(ctx, list, opts...); err != nil {
		return err
	}
	if all, ok := list.(*v1alpha1.ClusterList); ok {
		all.Items = append(all.Items, ofFiles.Items...)
	}
	return nil
}
