package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"time"
)

// Record is the hash of everything that has happened, and the bars of the Gantt
// chart if they are wanted.
type Record struct {
	sum  hash.Hash
	Bars []Bar
	Keep bool // the bars
}

// Bar is one stretch of a row of a Gantt chart.
type Bar struct {
	Row      int // worker or slot
	Kind     BarKind
	Task     int32
	From, To time.Duration
}

// BarKind says what a slot did.
type BarKind uint8

// Kinds of bars.
const (
	Waiting BarKind = iota
	Transferring
	Computing
)

func (k BarKind) String() string { return [...]string{"waiting", "transferring", "computing"}[k] }

// NewRecord makes an empty record.
func NewRecord() *Record { return &Record{sum: sha256.New()} }

// Note adds an event: its moment, a word and numbers.
func (r *Record) Note(at time.Duration, what string, numbers ...int64) {
	var line [8]byte
	binary.LittleEndian.PutUint64(line[:], uint64(at))
	_, _ = r.sum.Write(line[:])
	_, _ = r.sum.Write([]byte(what))
	for _, number := range numbers {
		binary.LittleEndian.PutUint64(line[:], uint64(number))
		_, _ = r.sum.Write(line[:])
	}
}

// Bar adds a bar if bars are kept.
func (r *Record) Bar(b Bar) {
	if r.Keep && b.To > b.From {
		r.Bars = append(r.Bars, b)
	}
}

// Hash is that of all notes so far, in hex digits.
func (r *Record) Hash() string { return hex.EncodeToString(r.sum.Sum(nil)) }
