package apply

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/failure"
)

// HookRequest asks for the object of one run of a hook.
type HookRequest struct {
	Owner delivery.Owner
	// Object as the hook has it, with a name.
	Object *unstructured.Unstructured
	// Run names the run for ever; Entry is how the inventory writes it, number/name.
	Run, Entry string
	// Resumed: the run was begun by an attempt before this one.
	Resumed bool
	// Until is when the time of the run is over: what is not there by then is not made any more.
	Until           time.Time
	TargetNamespace string
	// CreateNamespace makes TargetNamespace if it is not there.
	CreateNamespace bool
	Record          *Record
	// Objects are those of the render, whose Secrets are taken out of a refusal. It is only called for one.
	Objects func(context.Context) ([]*unstructured.Unstructured, error)
}

// ErrTooLate is a run whose time was over before its object was made.
var ErrTooLate = errors.New("the time of the run is over, and it has no object")

// HookObject is the object of one run of a hook on a target.
type HookObject struct {
	Ref     delivery.ObjectRef
	run     string
	resolve *resolver
	mapping *meta.RESTMapping
}

// StartHook has the object of a run on the target: it makes it, unless a run that is resumed has made it before. Objects of
// earlier runs of the hook, and of one that was stopped, are deleted first, and awaited. The object is announced in the inventory before it is made, and holds a
// finalizer until Release or Remove, so that nothing takes away its result before it was read.
//
// A failure.Terminal is what the cluster refuses for good, and an object of that name that no hook made, which is not
// touched; other failures may pass. ErrTooLate says that nothing was made. Any other error is of the hub or of the target as a whole.
func StartHook(ctx context.Context, t Target, l *Ledger, req HookRequest) (*HookObject, error) {
	s := &hookStarter{HookRequest: req, target: t, ledger: l, resolve: newResolver(t)}
	if err := s.find(ctx); err != nil {
		return nil, err
	}
	live, err := s.object.read(ctx)
	if err != nil {
		return nil, s.object.trouble(err)
	}
	known, isKnown := req.Record.entries[s.object.Ref]
	switch {
	case req.Resumed && live != nil && live.GetAnnotations()[v1alpha1.AnnotationHook] == req.Run:
		return s.object, nil
	case live != nil && live.GetLabels()[v1alpha1.LabelHookOwner] != req.Owner.Key():
		return nil, s.refused("it is there already, and no hook of this Release made it: rename the object of the hook")
	case req.Resumed && live == nil && isKnown && known.Hook == req.Entry && known.UID != "":
		return s.object, nil // it was made, and is gone: a look will tell
	}
	if err := s.clearEarlier(ctx, live != nil && !isKnown); err != nil {
		return nil, err
	}
	if !time.Now().Before(req.Until) {
		return nil, ErrTooLate
	}
	return s.object, s.make(ctx)
}

// FindHook is the object that a run made; nil when the inventory has none.
func FindHook(ctx context.Context, t Target, rec *Record, run, entry string) (*HookObject, error) {
	for _, e := range rec.Entries() {
		if e.Hook != entry {
			continue
		}
		r := newResolver(t)
		m, err := r.findAny(ctx, kindOf(e))
		if errors.Is(err, errNotServed) {
			return nil, nil
		}
		return &HookObject{Ref: RefOf(e), run: run, resolve: r, mapping: m}, err
	}
	return nil, nil
}

// Get reads the object; nil when it is gone, or another run or somebody else has made another one of its name.
func (o *HookObject) Get(ctx context.Context) (*unstructured.Unstructured, error) {
	live, err := o.read(ctx)
	if err != nil || live == nil || live.GetAnnotations()[v1alpha1.AnnotationHook] != o.run {
		return nil, o.trouble(err)
	}
	return live, nil
}

// Release takes off the finalizer, so that the object may go.
func (o *HookObject) Release(ctx context.Context) error {
	live, err := o.Get(ctx)
	if err != nil || live == nil {
		return err
	}
	return o.trouble(letGo(ctx, o.resolve, o.mapping, live))
}

// Remove deletes the object, and what runs for it, without waiting.
func (o *HookObject) Remove(ctx context.Context) error {
	live, err := o.Get(ctx)
	if err != nil || live == nil {
		return err
	}
	return o.trouble(removeHook(ctx, o.resolve, o.mapping, live))
}

// trouble tells what may pass about one object from errors of the target as a whole.
func (o *HookObject) trouble(err error) error {
	if err == nil || fatal(err) {
		return err
	}
	message, ok := passing(o.Ref, err)
	if !ok {
		message = "the cluster refused it (" + classOf(err) + ")"
	}
	return failure.Transient(v1alpha1.ReasonApplyRetrying, err, "%s: %s", o.Ref, message)
}

// read is the object of that name, whoever made it; nil when there is none.
func (o *HookObject) read(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	live, err := o.resolve.client(o.mapping, o.Ref.Namespace).Get(ctx, o.Ref.Name, getOptions)
	if apierrors.IsNotFound(err) && !isRouteMissing(err) {
		return nil, nil
	}
	return live, err
}

// hookStarter is the state of one StartHook.
type hookStarter struct {
	HookRequest
	target  Target
	ledger  *Ledger
	resolve *resolver
	object  *HookObject
}

func (s *hookStarter) find(ctx context.Context) error {
	ref, gvk := delivery.RefOf(s.Object), s.Object.GroupVersionKind()
	s.object = &HookObject{Ref: ref, run: s.Run, resolve: s.resolve}
	if problem := badName(s.Object); problem != "" {
		return s.refused(problem)
	}
	m, err := s.resolve.find(ctx, gvk)
	if errors.Is(err, errNotServed) || errors.Is(err, errGroupFailing) {
		e := unknownKind(ref, gvk, err)
		return &failure.Error{Reason: e.Reason, Message: e.String(), Terminal: e.Terminal}
	}
	if err != nil {
		return err
	}
	s.object.mapping = m
	namespaced := m.Scope.Name() == meta.RESTScopeNameNamespace
	switch {
	case !namespaced && ref.Namespace != "":
		return s.refused(gvk.Kind + " is cluster-scoped: remove metadata.namespace")
	case namespaced && ref.Namespace == "":
		s.object.Ref.Namespace = defaultNamespace(s.TargetNamespace)
	}
	return nil
}

func (s *hookStarter) refused(why string) error {
	return failure.Terminal(v1alpha1.ReasonHookFailed, nil, "%s: %s", s.object.Ref, why)
}

// clearEarlier deletes what earlier runs of the hook made, and the object of another hook that has the name. lost: the
// inventory does not have that one.
func (s *hookStarter) clearEarlier(ctx context.Context, lost bool) error {
	var earlier []v1alpha1.InventoryEntry
	for _, e := range s.Record.Entries() {
		if e.Hook != "" && (hookName(e.Hook) == hookName(s.Entry) || RefOf(e) == s.object.Ref) {
			earlier = append(earlier, e)
		}
	}
	if lost {
		earlier = append(earlier, s.entry(""))
	}
	if len(earlier) == 0 {
		return nil
	}
	r := newRemover(s.target, s.Owner, func(delivery.ObjectRef) bool { return false }, 0, newReporter(nil, len(earlier)))
	r.again = true
	if err := r.clear(ctx, earlier); err != nil {
		return err
	}
	var dropped []delivery.ObjectRef
	for _, e := range earlier {
		if l := r.looks[RefOf(e)]; l.verdict != gone {
			return failure.Transient(v1alpha1.ReasonApplyRetrying, nil, "%s, of the run before: %s", RefOf(e), l.message)
		}
		dropped = append(dropped, RefOf(e))
	}
	return s.ledger.Drop(ctx, s.Record, dropped)
}

func (s *hookStarter) entry(uid string) v1alpha1.InventoryEntry {
	gvk, ref := s.Object.GroupVersionKind(), s.object.Ref
	return v1alpha1.InventoryEntry{
		Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: uid, Hook: s.Entry,
	}
}

// make announces the object and creates it.
func (s *hookStarter) make(ctx context.Context) error {
	if err := s.ledger.Announce(ctx, s.Record, []v1alpha1.InventoryEntry{s.entry("")}); err != nil {
		return err
	}
	live, err := s.create(ctx)
	if err != nil && s.CreateNamespace && isNamespaceMissing(s.object.Ref, err) {
		if err := s.makeNamespace(ctx); err != nil {
			return err
		}
		live, err = s.create(ctx)
	}
	if err != nil {
		return s.explain(ctx, err)
	}
	return s.ledger.Confirm(ctx, s.Record, []v1alpha1.InventoryEntry{s.entry(string(live.GetUID()))}, nil)
}

func (s *hookStarter) create(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return s.resolve.client(s.object.mapping, s.object.Ref.Namespace).Create(ctx, hookMarked(s.Object, s.object.Ref.Namespace, s.Owner, s.Run),
		metav1.CreateOptions{FieldManager: s.Owner.FieldManager(), FieldValidation: metav1.FieldValidationStrict})
}

// makeNamespace is an apply of the target namespace and nothing else.
func (s *hookStarter) makeNamespace(ctx context.Context) error {
	changes, err := Apply(ctx, s.target, s.ledger, Request{
		Owner: s.Owner, TargetNamespace: s.TargetNamespace, CreateNamespace: true, Record: s.Record,
	})
	if err != nil || len(changes.Failed) == 0 {
		return err
	}
	e := changes.Failed[0]
	return &failure.Error{Reason: e.Reason, Message: e.String(), Terminal: e.Terminal}
}

// explain classifies what the server said about the object.
func (s *hookStarter) explain(ctx context.Context, err error) error {
	if fatal(err) || apierrors.IsAlreadyExists(err) {
		return s.object.trouble(err)
	}
	objects, hubErr := s.Objects(ctx)
	if hubErr != nil {
		return hubErr
	}
	e := refusal(s.target, s.object.Ref, err, &scrubber{objects: append(slices.Clone(objects), s.Object)})
	return &failure.Error{Reason: e.Reason, Message: e.String(), Terminal: e.Terminal}
}

// hookMarked is the object as it is made. It does not bear the mark of what a render holds.
func hookMarked(o *unstructured.Unstructured, namespace string, owner delivery.Owner, run string) *unstructured.Unstructured {
	out := marked(o, namespace, owner)
	labels := out.GetLabels()
	delete(labels, v1alpha1.LabelOwner)
	labels[v1alpha1.LabelHookOwner] = owner.Key()
	out.SetLabels(labels)
	annotations := out.GetAnnotations()
	annotations[v1alpha1.AnnotationHook] = run
	out.SetAnnotations(annotations)
	out.SetFinalizers(append(slices.Clone(out.GetFinalizers()), v1alpha1.HookFinalizer))
	return out
}

// letGo takes convoy's finalizer off an object of a hook.
func letGo(ctx context.Context, r *resolver, m *meta.RESTMapping, live *unstructured.Unstructured) error {
	if !slices.Contains(live.GetFinalizers(), v1alpha1.HookFinalizer) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "finalizers": withoutHookFinalizer(live),
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err = r.client(m, live.GetNamespace()).Patch(ctx, live.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func withoutHookFinalizer(live *unstructured.Unstructured) []string {
	return slices.DeleteFunc(slices.Clone(live.GetFinalizers()), func(f string) bool { return f == v1alpha1.HookFinalizer })
}

// removeHook deletes an object of a hook and lets it go.
func removeHook(ctx context.Context, r *resolver, m *meta.RESTMapping, live *unstructured.Unstructured) error {
	if err := letGo(ctx, r, m, live); err != nil || live.GetDeletionTimestamp() != nil {
		return err
	}
	err := deleteObject(ctx, r.client(m, live.GetNamespace()), live.GetName(), live.GetUID())
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// hookName is the name of the hook in number/name.
func hookName(entry string) string {
	_, name, _ := strings.Cut(entry, "/")
	return name
}

// hookEntry is what the inventory writes for the mark of a run, which is uid/number/name and may go on.
func hookEntry(mark string) string {
	parts := strings.SplitN(mark, "/", 4)
	if len(parts) < 3 {
		return "0/"
	}
	return parts[1] + "/" + parts[2]
}
