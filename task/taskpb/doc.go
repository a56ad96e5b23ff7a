// Package taskpb translates between the vocabulary of package task and its
// protobuf form, for every edge that speaks gRPC or the overlay's encoding.
// From* functions check what comes from outside: forms of ids, lengths, known
// enum values. It decides nothing.
package taskpb
