package expr

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

// Cost and time are only looked at between two calls. So what one call may have to do is bounded before it is made: a
// value that holds another one twice, which holds another one twice, is cheap to build and endless to compare.
const (
	maxWeight  = 200_000    // of one value: its parts, and a tenth of the bytes of its texts
	maxRange   = 10_000     // elements of lists.range
	maxPairs   = 4_000_000  // comparisons of the functions that compare everything with everything
	maxMatch   = 50_000_000 // bytes of a text times instructions of a regular expression
	maxPattern = 1_000      // bytes of a regular expression
)

// errTooLarge also ends a text that is too long, as a value or as an expression.
var errTooLarge = errors.New("a value or the expression itself is too large")

// weigh takes the weight of a value off left, and stops when nothing is left: the result is negative then.
func weigh(v ref.Val, left int) int {
	left--
	if left < 0 {
		return left
	}
	switch v := v.(type) {
	case types.String:
		return left - len(v)/10
	case types.Bytes:
		return left - len(v)/10
	case *types.Optional:
		if v.HasValue() {
			return weigh(v.GetValue(), left)
		}
	case *object:
		for _, field := range v.fields {
			if left = weigh(field, left); left < 0 {
				return left
			}
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True && left >= 0; {
			key := it.Next()
			if left = weigh(key, left); left >= 0 {
				left = weigh(v.Get(key), left)
			}
		}
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True && left >= 0; {
			left = weigh(it.Next(), left)
		}
	}
	return left
}

// bounds puts itself before the functions of an environment.
type bounds struct {
	impl map[string]*functions.Overload // by the ID of an overload, or the name of a function
}

// boundsBy keeps the bounds of the environments.
var boundsBy sync.Map

func boundsOf(env *cel.Env) (*bounds, error) {
	if b, ok := boundsBy.Load(env); ok {
		if b, ok := b.(*bounds); ok {
			return b, nil
		}
	}
	b := &bounds{impl: map[string]*functions.Overload{}}
	for _, f := range env.Functions() {
		overloads, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		for _, o := range overloads {
			b.impl[o.Operator] = o
		}
	}
	b.impl[operators.Equals] = &functions.Overload{Binary: types.Equal}
	b.impl[operators.NotEquals] = &functions.Overload{Binary: notEqual}
	boundsBy.Store(env, b)
	return b, nil
}

func notEqual(a, b ref.Val) ref.Val {
	equal, ok := types.Equal(a, b).(types.Bool)
	if !ok {
		return types.NoSuchOverloadErr()
	}
	return !equal
}

// decorate is called for each node of an expression when it is compiled.
func (b *bounds) decorate(node interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	switch node := node.(type) {
	case interpreter.InterpretableCall:
		return b.call(node), nil
	case interpreter.InterpretableConstructor:
		constant := func(v interpreter.InterpretableV2) bool {
			_, is := v.(interpreter.InterpretableConst)
			return is
		}
		if !slices.ContainsFunc(node.InitVals(), func(v interpreter.InterpretableV2) bool { return !constant(v) }) {
			return node, nil // no larger than its text, and left to the optimizer
		}
		return &weighed{node}, nil
	}
	return node, nil
}

// weighed is a list or map whose weight is bounded.
type weighed struct {
	interpreter.InterpretableConstructor
}

// Exec implements interpreter.InterpretableV2.
func (w *weighed) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := w.InterpretableConstructor.Exec(frame)
	if !types.IsUnknownOrError(v) && weigh(v, maxWeight) < 0 {
		return types.WrapErr(errTooLarge)
	}
	return v
}

// Eval implements interpreter.Interpretable.
func (w *weighed) Eval(in interpreter.Activation) ref.Val { return w.Exec(interpreter.AsFrame(in)) }

// call is a call whose arguments are looked at first. Functions that take errors decide by themselves, without looking
// into values.
func (b *bounds) call(call interpreter.InterpretableCall) interpreter.InterpretableV2 {
	impl, ok := b.impl[call.OverloadID()]
	if name := call.Function(); !ok || name == operators.Equals || name == operators.NotEquals {
		impl, ok = b.impl[name]
	}
	if !ok || impl.NonStrict || len(call.Args()) == 0 {
		return call
	}
	name := call.Function()
	if name == "matches" {
		name += "()" // a name that the optimizer of constant regular expressions does not know, which would undo this
	}
	return interpreter.NewCall(call.ID(), name, call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		if err := admit(call.Function(), args); err != nil {
			return types.WrapErr(err)
		}
		return invoke(impl, args)
	})
}

func invoke(impl *functions.Overload, args []ref.Val) ref.Val {
	switch {
	case len(args) == 1 && impl.Unary != nil:
		return impl.Unary(args[0])
	case len(args) == 2 && impl.Binary != nil:
		return impl.Binary(args[0], args[1])
	case impl.Function != nil:
		return impl.Function(args...)
	}
	return types.NoSuchOverloadErr()
}

// admit decides whether a function may be called with these arguments.
func admit(function string, args []ref.Val) error {
	for _, arg := range args {
		switch arg.(type) {
		case traits.MutableLister, traits.MutableMapper: // what a loop gathers; each of its parts was weighed when it came
			continue
		}
		if weigh(arg, maxWeight) < 0 {
			return errTooLarge
		}
	}
	switch function {
	case "lists.range":
		if n, ok := args[0].(types.Int); ok && n > maxRange {
			return errTooLarge
		}
	case "distinct":
		return pairs(args[0], args[0])
	case "sets.contains", "sets.equivalent", "sets.intersects":
		if len(args) == 2 {
			return pairs(args[0], args[1])
		}
	case "replace":
		return replaced(args)
	case "join":
		return joined(args)
	case "format":
		if text, ok := args[0].(types.String); ok && precise.MatchString(string(text)) {
			return errTooLarge
		}
	case "matches", "find", "findAll":
		return matched(args)
	}
	return nil
}

// pairs bounds the work of comparing every element with every other.
func pairs(a, b ref.Val) error {
	n, ok := a.(traits.Sizer)
	size, isInt := types.Int(0), false
	if ok {
		size, isInt = n.Size().(types.Int)
	}
	if isInt && int(size)*(maxWeight-weigh(b, maxWeight)) > maxPairs {
		return errTooLarge
	}
	return nil
}

func replaced(args []ref.Val) error {
	texts := textsOf(args)
	if len(texts) < 3 {
		return nil
	}
	n := strings.Count(texts[0], texts[1])
	if len(texts[0])+n*len(texts[2]) > maxText {
		return errTooBig
	}
	return nil
}

// joined bounds the text between the elements; the elements were weighed.
func joined(args []ref.Val) error {
	list, ok := args[0].(traits.Sizer)
	if !ok || len(args) < 2 {
		return nil
	}
	n, isInt := list.Size().(types.Int)
	if between, isText := args[1].(types.String); isInt && isText && int(n)*len(between) > maxText {
		return errTooBig
	}
	return nil
}

// precise matches a precision with which a short format gives a long text.
var precise = regexp.MustCompile(`%\.\d{3,}`)

// matched bounds the work of a regular expression, whose program can be far larger than its text.
func matched(args []ref.Val) error {
	texts := textsOf(args)
	if len(texts) < 2 {
		return nil
	}
	if len(texts[1]) > maxPattern {
		return errTooLarge
	}
	parsed, err := syntax.Parse(texts[1], syntax.Perl)
	if err != nil {
		return nil //nolint:nilerr // the function itself refuses it
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil //nolint:nilerr // the function itself refuses it
	}
	if len(program.Inst)*(1+len(texts[0])) > maxMatch {
		return errTooLarge
	}
	return nil
}

func textsOf(args []ref.Val) []string {
	var texts []string
	for _, arg := range args {
		if text, ok := arg.(types.String); ok {
			texts = append(texts, string(text))
		}
	}
	return texts
}
