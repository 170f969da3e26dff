package expr

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/mutation"
)

// Change is what a mutation gives: one of its fields is set.
type Change struct {
	// Object is an apply configuration, as JSON has it; integers are int64.
	Object map[string]any
	// Patch is a JSON patch (RFC 6902), as JSON.
	Patch []byte
}

// objectName is the type of an apply configuration; the types of its fields are Object.spec and so on.
const objectName = "Object"

// typeResolver knows the types of the dialect. Kubernetes' own Object converts to Go without a bound, so Object is ours.
type typeResolver struct{}

// Resolve implements common.TypeResolver.
func (typeResolver) Resolve(name string) (common.ResolvedType, bool) {
	switch {
	case name == mutation.JSONPatchTypeName:
		return &mutation.JSONPatchType{}, true
	case name == objectName, strings.HasPrefix(name, objectName+"."):
		return resolvedObject{types.NewObjectType(name)}, true
	}
	return nil, false
}

// resolvedObject is the type of an Object, or of one of its fields; it may have any field.
type resolvedObject struct{ is *types.Type }

// HasTrait implements ref.Type.
func (o resolvedObject) HasTrait(trait int) bool { return o.is.HasTrait(trait) }

// TypeName implements ref.Type.
func (o resolvedObject) TypeName() string { return o.is.TypeName() }

// Type implements common.ResolvedType.
func (o resolvedObject) Type() *types.Type { return o.is }

// Field implements common.ResolvedType.
func (o resolvedObject) Field(string) (*types.FieldType, bool) {
	return &types.FieldType{Type: types.DynType}, true
}

// FieldNames implements common.ResolvedType: they are not known.
func (o resolvedObject) FieldNames() ([]string, bool) { return nil, true }

// Val implements common.ResolvedType.
func (o resolvedObject) Val(fields map[string]ref.Val) ref.Val {
	left := maxWeight
	for _, v := range fields {
		if left = weigh(v, left); left < 0 {
			return types.WrapErr(errTooLarge)
		}
	}
	return &object{is: o.is, fields: fields}
}

// object is an Object{…}, or one of its fields.
type object struct {
	is     *types.Type
	fields map[string]ref.Val
}

// ConvertToNative implements ref.Val; results are converted by native.
func (o *object) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("an Object has no other form")
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val {
	switch {
	case t == types.TypeType:
		return o.is
	case t.TypeName() == o.is.TypeName():
		return o
	}
	return types.NewErr("an Object has no other form")
}

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	that, ok := other.(*object)
	if !ok || o.is.TypeName() != that.is.TypeName() || len(o.fields) != len(that.fields) {
		return types.False
	}
	for name, v := range o.fields {
		if w, has := that.fields[name]; !has || types.Equal(v, w) != types.True {
			return types.False
		}
	}
	return types.True
}

// Type implements ref.Val.
func (o *object) Type() ref.Type { return o.is }

// Value implements ref.Val.
func (o *object) Value() any { return o.fields }

// changeOf reads the result of a mutation.
func changeOf(v ref.Val) (Change, error) {
	if weigh(v, maxWeight) < 0 {
		return Change{}, errTooLarge
	}
	if o, ok := v.(*object); ok {
		m, err := native(o, objectName)
		if err != nil {
			return Change{}, err
		}
		config, ok := m.(map[string]any)
		if !ok {
			return Change{}, errWrongType
		}
		return Change{Object: config}, nil
	}
	list, ok := v.(traits.Lister)
	if !ok {
		return Change{}, errWrongType
	}
	operations := []map[string]any{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		op, ok := it.Next().(*mutation.JSONPatchVal)
		if !ok {
			return Change{}, errWrongType
		}
		operation := map[string]any{"op": op.Op, "path": op.Path}
		if op.From != "" {
			operation["from"] = op.From
		}
		if op.Val != nil {
			value, err := native(op.Val, op.Val.Type().TypeName())
			if err != nil {
				return Change{}, err
			}
			operation["value"] = value
		}
		operations = append(operations, operation)
	}
	patch, err := json.Marshal(operations)
	return Change{Patch: patch}, err
}

// native is a value as JSON has it. path is the type that an Object has to have at this place: its fields are called
// as their types are, which finds misspelled ones.
func native(v ref.Val, path string) (any, error) {
	switch v := v.(type) {
	case *object:
		if v.is.TypeName() != path {
			return nil, fmt.Errorf("%s is needed where %s stands", path, v.is.TypeName())
		}
		out := make(map[string]any, len(v.fields))
		for name, field := range v.fields {
			value, err := native(field, path+"."+name)
			if err != nil {
				return nil, err
			}
			out[name] = value
		}
		return out, nil
	case traits.Mapper:
		return nativeMap(v, path)
	case traits.Lister:
		out := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			value, err := native(it.Next(), path)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
		return out, nil
	}
	return nativeScalar(v, path)
}

func nativeMap(m traits.Mapper, path string) (any, error) {
	out := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("a key of a map in %s is not a text", path)
		}
		value, err := native(m.Get(key), path)
		if err != nil {
			return nil, err
		}
		out[string(name)] = value
	}
	return out, nil
}

func nativeScalar(v ref.Val, path string) (any, error) {
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.String:
		return string(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		if uint64(v) <= math.MaxInt64 {
			return int64(v), nil //nolint:gosec // compared on the line above
		}
	case types.Double:
		if f := float64(v); f == 0 {
			return float64(0), nil // without a sign, which JSON would keep in this one and lose when it is read again
		} else if !math.IsNaN(f) && !math.IsInf(f, 0) {
			return f, nil
		}
	case types.Bytes:
		return base64.StdEncoding.EncodeToString(v), nil
	case types.Timestamp:
		return v.UTC().Format(time.RFC3339Nano), nil
	}
	return nil, fmt.Errorf("a value in %s is of the type %s, which an object cannot hold", path, v.Type().TypeName())
}
