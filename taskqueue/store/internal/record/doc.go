// Package record turns records into compact blobs for the durable stores.
//
// A record is written as its fields that are not zero, each under a number
// that comes from the field's name, with its wire form, so that programs of
// different releases read each other's blobs: fields may be added, removed and
// reordered; a field that the reader does not know is skipped, one that the
// writer did not know stays zero. A renamed field is a new one. The fields of an
// embedded struct with the tag `record:"inline"` are written as if they were the
// record's own, so that a record's fields may be put into groups. Nil and empty
// slices and maps stay apart; times come back in UTC.
//
//	struct: (key value)* 0      key = number<<3 | wire form, as a varint
//	list:   count wire value*
//	map:    count wire wire (key value)*
//
// How a type is stored is worked out once; fields are then reached by their addresses
// (package unsafe), as a queue encodes and decodes all the time.
//
// The package starts no goroutine and is safe for concurrent use.
package record
