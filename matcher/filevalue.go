package matcher

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// fileType is the type of the elements of "files" in expressions.
var fileType = cel.ObjectType("File")

// fileValue is one element of "files".
type fileValue struct {
	file  FileInfo
	local bool
}

// fileFields are the fields of a fileValue in expressions.
var fileFields = map[string]*types.FieldType{
	"name":  fileField(cel.StringType, func(f fileValue) any { return f.file.LFN.Local() }),
	"size":  fileField(cel.IntType, func(f fileValue) any { return int64(f.file.Size) }),
	"local": fileField(cel.BoolType, func(f fileValue) any { return f.local }),
}

func fileField(kind *cel.Type, get func(fileValue) any) *types.FieldType {
	return &types.FieldType{
		Type:  kind,
		IsSet: func(any) bool { return true },
		GetFrom: func(target any) (any, error) {
			file, ok := target.(fileValue)
			if !ok {
				return nil, fmt.Errorf("%T is not a file", target)
			}
			return get(file), nil
		},
	}
}

// ConvertToNative is part of ref.Val: only the value itself is offered.
func (f fileValue) ConvertToNative(kind reflect.Type) (any, error) {
	if kind == reflect.TypeFor[fileValue]() {
		return f, nil
	}
	return nil, fmt.Errorf("a file does not convert to %s", kind)
}

// ConvertToType is part of ref.Val: type(file) is all that is offered.
func (f fileValue) ConvertToType(kind ref.Type) ref.Val {
	if kind == types.TypeType {
		return fileType
	}
	return types.NewErr("a file does not convert to %s", kind.TypeName())
}

// Equal tells whether two files of the list are the same.
func (f fileValue) Equal(other ref.Val) ref.Val {
	second, ok := other.(fileValue)
	return types.Bool(ok && f == second)
}

// Type is the CEL type.
func (f fileValue) Type() ref.Type { return fileType }

// Value is what field access works on.
func (f fileValue) Value() any { return f }

// provider adds File to CEL's own types.
type provider struct{ *types.Registry }

// FindStructType knows File beside the registry's types.
func (p provider) FindStructType(name string) (*types.Type, bool) {
	if name == fileType.TypeName() {
		return types.NewTypeTypeWithParam(fileType), true
	}
	return p.Registry.FindStructType(name)
}

// FindStructFieldNames lists the fields of File.
func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	if name == fileType.TypeName() {
		return []string{"local", "name", "size"}, true
	}
	return p.Registry.FindStructFieldNames(name)
}

// FindStructFieldType types the fields of File.
func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if name == fileType.TypeName() {
		kind, found := fileFields[field]
		return kind, found
	}
	return p.Registry.FindStructFieldType(name, field)
}
