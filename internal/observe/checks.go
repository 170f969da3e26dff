package observe

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/expr"
	"kumodo.io/convoy/internal/failure"
)

const (
	// judgeTime is how long the expressions about one object may take. Their cost ends them much earlier, unless a value is very large.
	judgeTime = time.Second
	// restTime is how long the checks of a Release are not asked any more after they took too long: others wait for the same watch.
	restTime = time.Minute
)

// Checks are the health checks of one Release, compiled. nil has none. They are safe for concurrent use.
type Checks struct {
	all []*check
	// patience is how long the expressions about one object may take.
	patience time.Duration
	// resting is until when they are not asked, in nanoseconds.
	resting atomic.Int64
}

// check is one of them.
type check struct {
	selector
	subject string
	// asks are in the order in which they are evaluated: the first that is true decides.
	asks    []ask
	message *expr.OfObject
	// invalid is why it cannot judge anything.
	invalid error
}

type ask struct {
	field      string
	verdict    Verdict
	expression *expr.OfObject
}

// selector selects objects; what is empty matches all.
type selector struct{ group, kind, name, namespace string }

func (s selector) selects(ref delivery.ObjectRef) bool {
	matches := func(pattern, value string) bool { return pattern == "" || pattern == value }
	return s.selectsKind(ref.GroupKind()) && matches(s.name, ref.Name) && matches(s.namespace, ref.Namespace)
}

func (s selector) selectsKind(gk schema.GroupKind) bool {
	return (s.group == "" || s.group == gk.Group) && (s.kind == "" || s.kind == gk.Kind)
}

// NewChecks compiles the checks of a Release; it gives nil for none. The error is a terminal failure that names the first which is not
// valid. The others judge all the same, and what that one would judge is InProgress.
func NewChecks(all []v1alpha1.HealthCheck) (*Checks, error) {
	if len(all) == 0 {
		return nil, nil
	}
	out := &Checks{patience: judgeTime}
	var invalid error
	for i := range all {
		c := newCheck(&all[i], fmt.Sprintf("spec.healthChecks[%d]", i))
		if invalid == nil {
			invalid = c.invalid
		}
		out.all = append(out.all, c)
	}
	return out, invalid
}

func newCheck(h *v1alpha1.HealthCheck, subject string) *check {
	c := &check{selector: selector{h.Group, h.Kind, h.Name, h.Namespace}, subject: subject}
	if delivery.AlwaysHealthy(schema.GroupKind{Group: h.Group, Kind: h.Kind}) {
		c.invalid = failure.Terminal(v1alpha1.ReasonRenderFailed, nil,
			"%s: objects of the kind %s have no health and are not read; remove it, or name the group of another kind", subject, h.Kind)
		return c
	}
	for _, a := range []struct {
		field, text string
		verdict     Verdict
	}{{"failed", h.Failed, Failed}, {"inProgress", h.InProgress, InProgress}, {"current", h.Current, Current}} {
		if a.text == "" {
			continue
		}
		expression, err := expr.ObjectCondition(subject+"."+a.field, a.text)
		if err != nil {
			c.invalid = err
			return c
		}
		c.asks = append(c.asks, ask{a.field, a.verdict, expression})
	}
	if h.Message != "" {
		c.message, c.invalid = expr.ObjectText(subject+".message", h.Message)
	}
	return c
}

// Validate refuses expressions of a Release about the objects on its target that are not valid.
func Validate(spec *v1alpha1.ReleaseSpec) error {
	if _, err := NewChecks(spec.HealthChecks); err != nil {
		return err
	}
	_, err := NewIgnores(spec.IgnoreDifferences)
	return err
}

// Selects reports whether a check judges an object.
func (c *Checks) Selects(ref delivery.ObjectRef) bool { return c.of(ref) != nil }

func (c *Checks) of(ref delivery.ObjectRef) *check {
	if c == nil || delivery.AlwaysHealthy(ref.GroupKind()) {
		return nil
	}
	for _, k := range c.all {
		if k.selects(ref) {
			return k
		}
	}
	return nil
}

// concern reports whether the checks may judge an object of a kind.
func (c *Checks) concern(gk schema.GroupKind) bool {
	if c == nil || delivery.AlwaysHealthy(gk) {
		return false
	}
	for _, k := range c.all {
		if k.selectsKind(gk) {
			return true
		}
	}
	return false
}

// rested is how long the checks are not asked any more, 0 while they are.
func (c *Checks) rested() time.Duration {
	if c == nil {
		return 0
	}
	return max(0, time.Until(time.Unix(0, c.resting.Load())))
}

// Health judges a live object: by the first check that selects it, else as Health does. final: its failure is not worth a second look.
func (c *Checks) Health(ctx context.Context, o *unstructured.Unstructured) (verdict Verdict, message string, final bool) {
	k := c.of(delivery.RefOf(o))
	switch {
	case k == nil:
		verdict, message = Health(o)
		return verdict, message, Final(o)
	case o.GetDeletionTimestamp() != nil:
		return Terminating, beingDeleted, false
	case k.invalid != nil:
		return InProgress, oneLine(k.invalid.Error()), false
	case delivery.Unobserved(o):
		return InProgress, "its controller has not seen its newest generation yet", false
	case c.rested() > 0:
		return InProgress, k.subject + ": the expressions took too long; they are evaluated again in a minute", false
	}
	limited, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	verdict, message = k.judge(limited, o)
	if limited.Err() != nil && ctx.Err() == nil {
		c.resting.Store(time.Now().Add(restTime).UnixNano())
	}
	return verdict, message, false
}

// judge evaluates the expressions. The message may hold words that message gives, and nothing else of the object.
func (k *check) judge(ctx context.Context, o *unstructured.Unstructured) (Verdict, string) {
	var session expr.Session
	verdict, why := InProgress, "none of the expressions of "+k.subject+" is true"
	for _, a := range k.asks {
		holds, err := session.Holds(ctx, a.expression, o.Object)
		switch {
		case err != nil && ctx.Err() != nil:
			return InProgress, k.subject + "." + a.field + ": the expression takes too long"
		case err != nil:
			return InProgress, oneLine(err.Error())
		case holds && a.verdict == Current:
			return Current, k.subject + ".current is true"
		case holds:
			return a.verdict, k.say(ctx, &session, o, k.subject+"."+a.field+" is true")
		}
	}
	return verdict, k.say(ctx, &session, o, why)
}

// say is what message makes of an object, or why.
func (k *check) say(ctx context.Context, session *expr.Session, o *unstructured.Unstructured, why string) string {
	if k.message == nil {
		return why
	}
	text, err := session.Text(ctx, k.message, told(o))
	switch text = oneLine(text); {
	case err != nil && ctx.Err() != nil:
		return why
	case err != nil:
		return oneLine(why + "; " + err.Error())
	case text == "":
		return why
	}
	return text
}

// told is what a message may quote: what a controller says, and nothing of a spec or of data.
func told(o *unstructured.Unstructured) map[string]any {
	out := map[string]any{
		"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(),
		"metadata": map[string]any{"name": o.GetName(), "namespace": o.GetNamespace(), "generation": o.GetGeneration()},
	}
	if status, has := o.Object["status"]; has {
		out["status"] = status
	}
	return out
}
