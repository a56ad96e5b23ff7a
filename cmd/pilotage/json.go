package main

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// plain is what a command prints for programs, ready for encoding/json. Of
// protobuf messages the names are those of the protos, every field is there, and
// unlike in protobuf's own JSON all numbers are numbers and enums go by the short
// names that tables show: "state": "DONE".
func plain(value any) any {
	if message, ok := value.(proto.Message); ok {
		return plainMessage(message.ProtoReflect())
	}
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice {
		return value
	}
	elements := make([]any, list.Len())
	for i := range elements {
		elements[i] = plain(list.Index(i).Interface())
	}
	return elements
}

func plainMessage(message protoreflect.Message) any {
	if message.Descriptor().ParentFile().Package() == "google.protobuf" { // times, which protobuf writes as text
		text, _ := protojson.Marshal(message.Interface()) // null is what no calendar has
		return json.RawMessage(text)
	}
	fields := make(map[string]any)
	for i := range message.Descriptor().Fields().Len() {
		field := message.Descriptor().Fields().Get(i)
		if field.ContainingOneof() == nil || message.Has(field) {
			fields[string(field.Name())] = plainField(message, field)
		}
	}
	return fields
}

func plainField(message protoreflect.Message, field protoreflect.FieldDescriptor) any {
	value := message.Get(field)
	switch {
	case field.IsList():
		elements := make([]any, value.List().Len())
		for i := range elements {
			elements[i] = plainValue(value.List().Get(i), field)
		}
		return elements
	case field.IsMap():
		entries := make(map[string]any)
		for key, entry := range value.Map().Range {
			entries[key.String()] = plainValue(entry, field.MapValue())
		}
		return entries
	case field.Message() != nil && !message.Has(field):
		return nil
	}
	return plainValue(value, field)
}

func plainValue(value protoreflect.Value, field protoreflect.FieldDescriptor) any {
	switch known := value.Interface().(type) {
	case protoreflect.Message:
		return plainMessage(known)
	case protoreflect.EnumNumber:
		return shortName(known, field.Enum())
	case []byte:
		return append([]byte{}, known...) // nil would be null
	case float64:
		if math.IsNaN(known) || math.IsInf(known, 0) { // which JSON has no number for
			return fmt.Sprint(known)
		}
	}
	return value.Interface()
}

// shortName is an enum's value without the prefix that all its values have.
func shortName(number protoreflect.EnumNumber, enum protoreflect.EnumDescriptor) any {
	value := enum.Values().ByNumber(number)
	if value == nil {
		return number
	}
	zero := string(enum.Values().ByNumber(0).Name())
	return strings.TrimPrefix(string(value.Name()), strings.TrimSuffix(zero, "UNSPECIFIED"))
}
