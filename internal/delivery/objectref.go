package delivery

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ObjectRef identifies an object on a target. The version is not part of it: a renamed apiVersion is the
// same object.
type ObjectRef struct {
	Group     string
	Kind      string
	Namespace string
	Name      string
}

// RefOf is the identity of an object.
func RefOf(o *unstructured.Unstructured) ObjectRef {
	gvk := o.GroupVersionKind()
	return ObjectRef{Group: gvk.Group, Kind: gvk.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// GroupKind of the object.
func (r ObjectRef) GroupKind() schema.GroupKind {
	return schema.GroupKind{Group: r.Group, Kind: r.Kind}
}

// String is Kind.group namespace/name, for messages.
func (r ObjectRef) String() string {
	kind := r.Kind
	if r.Group != "" {
		kind += "." + r.Group
	}
	if r.Namespace == "" {
		return kind + " " + r.Name
	}
	return kind + " " + r.Namespace + "/" + r.Name
}

// Compare orders refs by group, kind, namespace and name.
func (r ObjectRef) Compare(o ObjectRef) int {
	for _, c := range [][2]string{{r.Group, o.Group}, {r.Kind, o.Kind}, {r.Namespace, o.Namespace}, {r.Name, o.Name}} {
		if d := strings.Compare(c[0], c[1]); d != 0 {
			return d
		}
	}
	return 0
}

// Stage is a step of an apply: everything of a stage is written before anything of the next.
type Stage int

// The stages in the order of an apply; a deletion goes the other way round.
const (
	StageDefinitions Stage = iota + 1 // namespaces and CRDs
	StageConfig                       // RBAC, configuration, storage, and every other kind that runs nothing
	StageWorkloads                    // what starts pods, and custom resources
	StageGates                        // webhooks and API services, which can block everything else
)

// Stages are all stages in the order of an apply.
var Stages = []Stage{StageDefinitions, StageConfig, StageWorkloads, StageGates}

// String names the stage for people.
func (s Stage) String() string {
	return map[Stage]string{
		StageDefinitions: "definitions", StageConfig: "configuration", StageWorkloads: "workloads", StageGates: "webhooks",
	}[s]
}

// StageOf decides the stage of a kind.
func StageOf(gk schema.GroupKind) Stage {
	switch gk.Group {
	case "":
		switch gk.Kind {
		case "Namespace":
			return StageDefinitions
		case "Pod", "ReplicationController":
			return StageWorkloads
		}
		return StageConfig
	case "apiextensions.k8s.io":
		return StageDefinitions
	case "apps", "batch", "autoscaling":
		return StageWorkloads
	case "admissionregistration.k8s.io", "apiregistration.k8s.io":
		return StageGates
	case "rbac.authorization.k8s.io", "storage.k8s.io", "scheduling.k8s.io", "policy", "networking.k8s.io",
		"node.k8s.io", "discovery.k8s.io", "coordination.k8s.io", "resource.k8s.io", "flowcontrol.apiserver.k8s.io":
		return StageConfig
	}
	return StageWorkloads // a custom resource
}
