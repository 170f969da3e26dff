package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

// wish is what a Release wants on the target.
type wish struct {
	Owner           delivery.Owner
	Objects         []*unstructured.Unstructured
	TargetNamespace string
	CreateNamespace bool
	Hooks           []string
}

// item is an object as it will be applied: marked, with its namespace, without what only a server may set.
type item struct {
	object  *unstructured.Unstructured
	ref     delivery.ObjectRef
	stage   delivery.Stage
	mapping *meta.RESTMapping // nil while only a definition of the same render knows the kind
	ours    bool              // its kind is defined in the same render
	implied bool              // it is not in the render: a target namespace that is to be there, whoever makes it
	uid     string            // of the object that convoy applied before; "" when it applied none
	fresh   bool              // the Record did not have it before this apply
	maybe   bool              // the target may have stored it, whatever it answered since
	options
}

// plan is the wish, resolved against the target.
type plan struct {
	items  []item
	failed []ObjectError
	// loose are objects whose kind, and so whose namespace, is unknown: whatever has their name stays.
	loose map[delivery.ObjectRef]bool
	// definitions are the kinds that the render itself defines.
	definitions map[schema.GroupKind]definition
	// keeps has the identity of every item, of what is ignored, and of the target namespace where convoy creates it.
	keeps map[delivery.ObjectRef]bool
	// ignored are objects of the render that are not convoy's to write: what the Record has of them is given up.
	ignored map[delivery.ObjectRef]bool
	// hooks are the names of those whose objects stay.
	hooks []string
}

// makePlan resolves the wish. It writes nothing; it reads discovery at most.
func makePlan(ctx context.Context, r *resolver, w wish) (*plan, error) {
	p := &plan{
		loose:       map[delivery.ObjectRef]bool{},
		definitions: definitionsOf(w.Objects),
		keeps:       make(map[delivery.ObjectRef]bool, len(w.Objects)),
		ignored:     map[delivery.ObjectRef]bool{},
		hooks:       w.Hooks,
	}
	for _, o := range w.Objects {
		if err := p.add(ctx, r, w, o); err != nil {
			return nil, err
		}
	}
	if w.CreateNamespace && w.TargetNamespace != "" {
		p.keeps[namespaceRef(w.TargetNamespace)] = true
	}
	return p, nil
}

func (p *plan) add(ctx context.Context, r *resolver, w wish, o *unstructured.Unstructured) error {
	gvk := o.GroupVersionKind()
	ref := delivery.RefOf(o)
	if problem := badName(o); problem != "" {
		p.refuse(ref, problem)
		return nil
	}
	opts, problem := optionsOf(o)
	if problem != "" {
		p.refuse(ref, problem)
		p.loose[looseRef(ref)] = true
		return nil
	}
	it := item{ref: ref, stage: delivery.StageOf(gvk.GroupKind()), options: opts}
	known, err := p.find(ctx, r, &it, gvk)
	if err != nil || !known {
		return err
	}
	namespaced := p.definitions[gvk.GroupKind()].namespaced
	if it.mapping != nil {
		namespaced = it.mapping.Scope.Name() == meta.RESTScopeNameNamespace
	}
	if !namespaced && ref.Namespace != "" {
		p.refuse(ref, fmt.Sprintf("%s is cluster-scoped: remove metadata.namespace", gvk.Kind))
		ref.Namespace = ""
		p.keeps[ref] = true
		return nil
	}
	if namespaced && ref.Namespace == "" {
		it.ref.Namespace = defaultNamespace(w.TargetNamespace)
	}
	if p.keeps[it.ref] {
		return failure.Terminal(v1alpha1.ReasonApplyFailed, nil, "the render holds %s twice: remove one", it.ref)
	}
	p.keeps[it.ref] = true
	if it.ignore {
		p.ignored[it.ref] = true
		return nil
	}
	it.object = marked(o, it.ref.Namespace, w.Owner)
	p.items = append(p.items, it)
	return nil
}

// find maps the kind of an item. One that only a definition of the same render knows is known without a mapping; what
// nobody knows is noted.
func (p *plan) find(ctx context.Context, r *resolver, it *item, gvk schema.GroupVersionKind) (known bool, err error) {
	_, it.ours = p.definitions[gvk.GroupKind()]
	if it.ours {
		it.mapping, err = r.peek(ctx, gvk)
	} else {
		it.mapping, err = r.find(ctx, gvk)
	}
	switch {
	case err == nil, it.ours && errors.Is(err, errNotServed): // the latter is known as soon as its definition is there
		return true, nil
	case errors.Is(err, errNotServed), errors.Is(err, errGroupFailing):
		if !it.ignore {
			p.failed = append(p.failed, unknownKind(it.ref, gvk, err))
		}
		p.loose[looseRef(it.ref)] = true
		return false, nil
	}
	return false, err
}

func (p *plan) refuse(ref delivery.ObjectRef, message string) {
	p.failed = append(p.failed, ObjectError{Ref: ref, Reason: v1alpha1.ReasonApplyFailed, Message: message, Terminal: true})
}

// entries are what Announce writes ahead.
func (p *plan) entries() []v1alpha1.InventoryEntry {
	out := make([]v1alpha1.InventoryEntry, 0, len(p.items))
	for i := range p.items {
		out = append(out, p.items[i].entry(""))
	}
	return out
}

// split finds the entries of a Record that are not wished for. Stale ones are to be deleted or, where they are ignored by
// now, given up. Renamed ones are the same object as something that is wished for, by its UID, as when a kind moves to
// another group: they are forgotten only.
func (p *plan) split(rec *Record) (stale []v1alpha1.InventoryEntry, renamed []delivery.ObjectRef) {
	wished := p.uids(rec)
	for _, e := range rec.Entries() {
		switch {
		case p.ignored[RefOf(e)]:
			stale = append(stale, e)
		case p.wants(RefOf(e)), e.Hook != "" && slices.Contains(p.hooks, hookName(e.Hook)):
		case wished[e.UID]:
			renamed = append(renamed, RefOf(e))
		default:
			stale = append(stale, e)
		}
	}
	return stale, renamed
}

// uids are those of the objects that are wished for, as far as the Record knows them.
func (p *plan) uids(rec *Record) map[string]bool {
	out := map[string]bool{}
	for ref, e := range rec.entries {
		if p.wants(ref) && !p.ignored[ref] && e.UID != "" {
			out[e.UID] = true
		}
	}
	return out
}

func (p *plan) wants(ref delivery.ObjectRef) bool {
	return p.keeps[ref] || p.loose[looseRef(ref)]
}

func (it *item) entry(uid string) v1alpha1.InventoryEntry {
	gvk := it.object.GroupVersionKind()
	return v1alpha1.InventoryEntry{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind,
		Namespace: it.ref.Namespace, Name: it.ref.Name, UID: uid,
	}
}

// marked copies as much of an object as it changes: the render stays as it is, and large objects are not doubled.
func marked(o *unstructured.Unstructured, namespace string, owner delivery.Owner) *unstructured.Unstructured {
	object := maps.Clone(o.Object)
	metadata, _ := object["metadata"].(map[string]any)
	metadata = maps.Clone(metadata)
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, servers := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "deletionTimestamp", "selfLink"} {
		delete(metadata, servers)
	}
	metadata["labels"] = with(metadata["labels"], v1alpha1.LabelOwner, owner.Key())
	metadata["annotations"] = with(metadata["annotations"], v1alpha1.AnnotationRelease, owner.String())
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	object["metadata"] = metadata
	encodeStringData(object)
	return &unstructured.Unstructured{Object: object}
}

func with(m any, key, value string) map[string]any {
	old, _ := m.(map[string]any)
	out := make(map[string]any, len(old)+1)
	maps.Copy(out, old)
	out[key] = value
	return out
}

func badName(o *unstructured.Unstructured) string {
	if o.GetName() == "" {
		return "it has no metadata.name: give it one"
	}
	if msgs := content.IsPathSegmentName(o.GetName()); len(msgs) > 0 {
		return "its metadata.name cannot be part of a URL: rename it"
	}
	if msgs := content.IsPathSegmentName(o.GetNamespace()); len(msgs) > 0 {
		return "its metadata.namespace cannot be part of a URL: rename it"
	}
	return ""
}

func defaultNamespace(target string) string {
	if target == "" {
		return "default"
	}
	return target
}

func looseRef(ref delivery.ObjectRef) delivery.ObjectRef {
	ref.Namespace = ""
	return ref
}

func namespaceRef(name string) delivery.ObjectRef {
	return delivery.ObjectRef{Kind: "Namespace", Name: name}
}
