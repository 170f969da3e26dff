package expr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/golang/groupcache/lru"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// The bounds of CEL. Cost is the unit of Kubernetes' own libraries; one expression may cost what one of an admission
// policy may.
const (
	maxExpression  = 8 << 10         // bytes of an expression
	maxDepth       = 100             // nesting of an expression
	maxOptMaps     = 4               // uses of optMap and optFlatMap: the parser writes twice what each of them is called on
	releaseCost    = 10_000_000      // of all expressions of one render together
	maxEvaluation  = 5 * time.Second // it only ever cuts off what the cost lets through, also on a busy machine
	checkFrequency = 100             // turns of a loop between two looks at the time
	keptPrograms   = 512             // compiled expressions that are kept
)

// dialect is the version of Kubernetes whose CEL libraries expressions see. It is pinned, because a library that
// changes with its module would change renders.
var dialect = version.MajorMinor(1, 37)

// The types of results.
var (
	objectType    = types.NewObjectType(objectName)
	jsonPatchList = types.NewListType(types.NewObjectType("JSONPatch"))
)

// use is what an expression is for: it decides what it sees and what it must give.
type use int

const (
	forCondition use = iota
	forMutation
	forCheck
	forObject
	forText
)

// environments are the one CEL environment, without and with what only mutations have (object, and the types of
// MutatingAdmissionPolicy) or only checks (objects); expressions over an object have nothing else.
type environments map[use]*cel.Env

var environmentsOf = sync.OnceValues(func() (environments, error) {
	base, err := environment.MustBaseEnvSet(dialect).Env(environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	if base, err = base.Extend(cel.ParserExpressionSizeLimit(maxExpression), cel.ParserRecursionLimit(maxDepth)); err != nil {
		return nil, err
	}
	object, err := base.Extend(cel.Variable("object", cel.DynType))
	if err != nil {
		return nil, err
	}
	condition, err := base.Extend(
		cel.Variable("cluster", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("release", cel.MapType(cel.StringType, cel.DynType)),
	)
	if err != nil {
		return nil, err
	}
	check, err := condition.Extend(cel.Variable("objects", cel.ListType(cel.DynType)))
	if err != nil {
		return nil, err
	}
	mutation, err := condition.Extend(
		cel.Variable("object", cel.DynType),
		common.ResolverEnvOption(typeResolver{}),
		library.JSONPatch(),
	)
	return environments{forCondition: condition, forMutation: mutation, forCheck: check, forObject: object, forText: object}, err
})

// Session evaluates the CEL expressions of one render, or of one look at a target, whose costs it adds up. Its zero value is ready.
// It is not for concurrent use.
type Session struct {
	// Limit is what they may cost together; 0 is what those of a render may.
	Limit uint64
	spent uint64
}

// Condition evaluates a condition over cluster and release. subject begins the message of an error.
//
// Errors are terminal failures with reason RenderFailed, which name the subject and the missing key and never hold a
// value; or the error of ctx. That goes for Mutation too.
func (s *Session) Condition(ctx context.Context, subject, text string, values map[string]any) (bool, error) {
	out, err := s.evaluate(ctx, forCondition, subject, text, values)
	if err != nil {
		return false, err
	}
	return out == types.True, nil
}

// Check evaluates a condition over objects, cluster and release. ErrExpression is in the error of an expression that no
// values can mend.
func (s *Session) Check(ctx context.Context, subject, text string, values map[string]any) (bool, error) {
	out, err := s.evaluate(ctx, forCheck, subject, text, values)
	if err != nil {
		return false, err
	}
	return out == types.True, nil
}

// ErrExpression is in the error of an expression that is not valid, whatever it is evaluated with.
var ErrExpression = errors.New("the expression is not valid")

// Mutation evaluates a mutation over object, cluster and release, which is an apply configuration or a JSON patch.
func (s *Session) Mutation(ctx context.Context, subject, text string, values map[string]any) (Change, error) {
	out, err := s.evaluate(ctx, forMutation, subject, text, values)
	if err != nil {
		return Change{}, err
	}
	change, err := changeOf(out)
	if err != nil {
		return Change{}, celFailed(subject, err.Error(), err)
	}
	return change, nil
}

func (s *Session) evaluate(ctx context.Context, purpose use, subject, text string, values map[string]any) (ref.Val, error) {
	program, err := programs.get(programKey{purpose, text})
	if err != nil {
		return nil, celFailed(subject, compileDetail(err), errors.Join(ErrExpression, err))
	}
	return s.run(ctx, program, subject, text, values)
}

// Spent reports whether nothing more is evaluated.
func (s *Session) Spent() bool { return s.spent >= cmp.Or(s.Limit, releaseCost) }

func (s *Session) run(ctx context.Context, program cel.Program, subject, text string, values map[string]any) (ref.Val, error) {
	if s.Spent() {
		return nil, celFailed(subject, "the expressions of this Release cost too much together", nil)
	}
	limited, cancel := context.WithTimeout(ctx, maxEvaluation)
	defer cancel()
	out, details, err := program.ContextEval(limited, values)
	if details != nil && details.ActualCost() != nil {
		s.spent += *details.ActualCost()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		s.spent += cmp.Or(s.Limit, releaseCost) / 100 // what failed may not have said what it cost
		return nil, celFailed(subject, runDetail(err, text), err)
	}
	return out, nil
}

type programKey struct {
	purpose use
	text    string
}

// programs are compiled once: the same expression comes back for every object, Release and reconcile.
var programs = &programCache{lru: lru.New(keptPrograms)}

type programCache struct {
	mu  sync.Mutex
	lru *lru.Cache
}

type compiled struct {
	program cel.Program
	err     error
}

func (c *programCache) get(key programKey) (cel.Program, error) {
	c.mu.Lock()
	found, ok := c.lru.Get(key)
	c.mu.Unlock()
	if known, is := found.(compiled); ok && is {
		return known.program, known.err
	}
	program, err := compile(key)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lru.Add(key, compiled{program, err})
	return program, err
}

// errWrongType says what an expression must give.
var errWrongType = errors.New("wrong type of result")

func compile(key programKey) (program cel.Program, err error) {
	defer func() {
		if p := recover(); p != nil { // expressions are untrusted, and the compiler is large
			program, err = nil, errors.New("it cannot be compiled")
		}
	}()
	envs, err := environmentsOf()
	if err != nil {
		return nil, fmt.Errorf("build the CEL environment: %w", err)
	}
	if len(key.text) > maxExpression {
		return nil, errTooLarge
	}
	if strings.Count(key.text, "optMap")+strings.Count(key.text, "optFlatMap") > maxOptMaps {
		return nil, fmt.Errorf("optMap and optFlatMap stand in it more than %d times", maxOptMaps)
	}
	env := envs[key.purpose]
	ast, issues := env.Compile(key.text)
	if issues.Err() != nil {
		return nil, issuesError{issues.Errors()}
	}
	if err := key.purpose.takes(ast.OutputType()); err != nil {
		return nil, err
	}
	bounds, err := boundsOf(env)
	if err != nil {
		return nil, err
	}
	options := []cel.ProgramOption{cel.InterruptCheckFrequency(checkFrequency), cel.CustomDecoratorV2(bounds.decorate)}
	if key.purpose == forObject || key.purpose == forText {
		options = append(options, cel.CostLimit(objectCost), cel.InterruptCheckFrequency(1)) // one turn may look at all of a large object
	}
	return env.Program(ast, options...)
}

// takes refuses an expression whose result is of another type than is needed.
func (u use) takes(got *types.Type) error {
	switch is := got.IsExactType; {
	case u == forMutation && !is(objectType) && !is(jsonPatchList):
		return fmt.Errorf("%w: Object{…} or a list of JSONPatch{…} is needed, and this gives %s", errWrongType, got)
	case u == forText && !is(types.StringType) && !is(types.DynType):
		return fmt.Errorf("%w: a text is needed, and this gives %s", errWrongType, got)
	case u != forMutation && u != forText && !is(types.BoolType):
		return fmt.Errorf("%w: true or false is needed, and this gives %s", errWrongType, got)
	}
	return nil
}
