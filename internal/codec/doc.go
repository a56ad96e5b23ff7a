// Package codec turns plain Go values into bytes and back: what pilots of a
// site say to each other, and what a journal keeps.
//
// The bytes are those of Protocol Buffers. A struct is a message, the number of a
// field is its place in the struct, counted from 1, zero values are left out, and
// fields that a reader does not know are skipped: so a new field goes to the end
// of its struct, and none is moved or taken out. An interface is a message with
// one field, whose number says which type it holds.
//
// Decode trusts nothing: texts, lists and numbers have limits, types may have
// checks of their own, what one message holds is bounded in all, and an error
// names the field.
//
// A Codec has no state and no goroutine; it is safe for concurrent use.
package codec
