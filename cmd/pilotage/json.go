package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// toJSON encodes what a command prints for programs. Of protobuf messages the
// names are those of the protos, every field is there, and unlike in
// protobuf's own JSON all numbers are numbers and enums go by the short names
// that tables show: "state": "DONE".
func toJSON(value any) ([]byte, error) {
	if message, ok := value.(proto.Message); ok {
		tree, err := tree(message)
		if err != nil {
			return nil, err
		}
		return json.Marshal(tree)
	}
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice {
		return json.Marshal(value)
	}
	elements := make([]json.RawMessage, list.Len())
	for i := range elements {
		element, err := toJSON(list.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		elements[i] = element
	}
	return json.Marshal(elements)
}

// tree is a message as maps, lists and plain values.
func tree(message proto.Message) (map[string]any, error) {
	data, err := protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}.Marshal(message)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", message.ProtoReflect().Descriptor().Name(), err)
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("encode %s: %w", message.ProtoReflect().Descriptor().Name(), err)
	}
	plainMessage(fields, message.ProtoReflect().Descriptor())
	return fields, nil
}

func plainMessage(fields map[string]any, message protoreflect.MessageDescriptor) {
	for name, value := range fields {
		if field := message.Fields().ByName(protoreflect.Name(name)); field != nil {
			fields[name] = plainField(value, field)
		}
	}
}

func plainField(value any, field protoreflect.FieldDescriptor) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = plainValue(value[i], field)
		}
		return value
	case map[string]any:
		if field.IsMap() {
			for key := range value {
				value[key] = plainValue(value[key], field.MapValue())
			}
			return value
		}
	}
	return plainValue(value, field)
}

// plainValue makes of protobuf's JSON of one value, which writes 64-bit
// numbers and enums as texts, what programs expect.
func plainValue(value any, field protoreflect.FieldDescriptor) any {
	switch field.Kind() {
	case protoreflect.MessageKind:
		if fields, is := value.(map[string]any); is {
			plainMessage(fields, field.Message())
		}
	case protoreflect.EnumKind:
		if name, is := value.(string); is {
			return shortName(name, field.Enum())
		}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if text, is := value.(string); is {
			return json.Number(text)
		}
	}
	return value
}

// shortName is an enum's value without the prefix that all its values have.
func shortName(name string, enum protoreflect.EnumDescriptor) string {
	zero := string(enum.Values().ByNumber(0).Name())
	return strings.TrimPrefix(name, strings.TrimSuffix(zero, "UNSPECIFIED"))
}
