package observe

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kumodo.io/convoy/api/v1alpha1"
	"kumodo.io/convoy/internal/delivery"
	"kumodo.io/convoy/internal/expr"
)

// What the expressions of all rules of a Release may cost in one look at its objects, and how long they may take.
const (
	lookCost = 2_000_000
	lookTime = time.Second
)

// Ignores are the rules of one Release about what drift is not looked at, compiled. nil has none.
type Ignores struct{ rules []ignoreRule }

type ignoreRule struct {
	selector
	when   *expr.OfObject // nil: always
	ignore Ignore
}

// NewIgnores compiles the rules of a Release; it gives nil for none. The error is a terminal failure that names the first which is not
// valid. The others apply all the same.
func NewIgnores(all []v1alpha1.IgnoredDifference) (*Ignores, error) {
	if len(all) == 0 {
		return nil, nil
	}
	out := &Ignores{}
	var invalid error
	for i := range all {
		rule := ignoreRule{
			selector: selector{all[i].Group, all[i].Kind, all[i].Name, all[i].Namespace},
			ignore:   Ignore{Pointers: all[i].JSONPointers, Managers: all[i].Managers},
		}
		if all[i].When != "" {
			var err error
			if rule.when, err = expr.ObjectCondition(fmt.Sprintf("spec.ignoreDifferences[%d].when", i), all[i].When); err != nil {
				if invalid == nil {
					invalid = err
				}
				continue
			}
		}
		out.rules = append(out.rules, rule)
	}
	return out, invalid
}

// glance is one look at the objects of a Release.
type glance struct {
	ignores *Ignores
	session expr.Session
	ends    time.Time
}

func (i *Ignores) glance() *glance {
	return &glance{ignores: i, session: expr.Session{Limit: lookCost}, ends: time.Now().Add(lookTime)}
}

// everything is ignored of an object that is not judged.
var everything = Ignore{Pointers: []string{""}}

// of says what is ignored of an object, as it was applied. A rule whose when has no value does not apply. Once the look has cost too much,
// nobody can say what applies, and nothing is called drift: it would be overwritten.
func (g *glance) of(ctx context.Context, ref delivery.ObjectRef, applied *unstructured.Unstructured) Ignore {
	var out Ignore
	if g.ignores == nil {
		return out
	}
	ctx, cancel := context.WithDeadline(ctx, g.ends)
	defer cancel()
	for _, rule := range g.ignores.rules {
		if !rule.selects(ref) {
			continue
		}
		if rule.when != nil {
			holds, err := g.session.Holds(ctx, rule.when, applied.Object)
			if err != nil && (g.session.Spent() || ctx.Err() != nil) {
				return everything
			}
			if err != nil || !holds {
				continue
			}
		}
		out.Pointers = append(out.Pointers, rule.ignore.Pointers...)
		out.Managers = append(out.Managers, rule.ignore.Managers...)
	}
	return out
}
