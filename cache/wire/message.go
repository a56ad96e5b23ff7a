// Package wire has what pilots tell the homes of files, and hear of them, as bytes. What
// comes from outside is checked for its form.
package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/cache/peer"
	"github.com/pilotage-grid/pilotage/task"
)

// The first byte of a message tells the way it goes.
const (
	toDesk   = 'q'
	fromDesk = 'a'

	maxMessage = 64 << 10 // bytes; the largest honest one has some 6,000
	maxHolders = 32       // in a message, tried or pointed to
)

// Kinds of questions.
const (
	kindAsk    = "ask"
	kindRenew  = "renew"
	kindFinish = "finish"
)

// question is what a pilot tells the home of a file.
type question struct {
	Kind   string        `json:"kind"`
	Key    task.FileKey  `json:"key"`
	Number uint64        `json:"number,omitempty"` // ask
	Tried  []task.PeerID `json:"tried,omitempty"`  // ask
	URL    string        `json:"url,omitempty"`    // finish: where the pilot serves
	End    cache.Ending  `json:"end,omitempty"`    // finish
}

// reply is what the home answers.
type reply struct {
	Key     task.FileKey  `json:"key"`
	Number  uint64        `json:"number,omitempty"`
	Verdict cache.Verdict `json:"verdict"`
	Holders []holderText  `json:"holders,omitempty"`
}

type holderText struct {
	Peer task.PeerID `json:"peer"`
	URL  string      `json:"url"`
}

func encode(way byte, body any) []byte {
	data, err := json.Marshal(body)
	if err != nil {
		panic("wire: a message of strings and numbers was refused: " + err.Error())
	}
	return append([]byte{way}, data...)
}

func decode(way byte, data []byte, body any) error {
	if len(data) == 0 || len(data) > maxMessage || data[0] != way {
		return fmt.Errorf("message of %d bytes is not one of the expected kind", len(data))
	}
	return json.Unmarshal(data[1:], body)
}

// Question encodes an Ask, a Renew or a Finish.
func Question(event cache.GrantEvent) []byte {
	var q question
	switch e := event.(type) {
	case cache.Ask:
		q = question{Kind: kindAsk, Key: e.Key, Number: e.Number, Tried: e.Tried[:min(len(e.Tried), maxHolders)]}
	case cache.Renew:
		q = question{Kind: kindRenew, Key: e.Key}
	case cache.Finish:
		q = question{Kind: kindFinish, Key: e.Key, URL: e.From.DataURL, End: e.End}
	}
	return encode(toDesk, q)
}

// ReadQuestion turns a message into an event; only its form is trusted.
func ReadQuestion(from task.PeerID, data []byte) (cache.GrantEvent, error) {
	var q question
	if err := decode(toDesk, data, &q); err != nil {
		return nil, fmt.Errorf("question from %s: %w", from, err)
	}
	if _, err := cache.ParseKey(string(q.Key)); err != nil {
		return nil, fmt.Errorf("question from %s: %w", from, err)
	}
	switch q.Kind {
	case kindAsk:
		if len(q.Tried) > maxHolders {
			return nil, fmt.Errorf("question from %s names %d pilots tried, at most %d", from, len(q.Tried), maxHolders)
		}
		return cache.Ask{Key: q.Key, From: from, Tried: q.Tried, Number: q.Number}, nil
	case kindRenew:
		return cache.Renew{Key: q.Key, From: from}, nil
	case kindFinish:
		holder := cache.Holder{Peer: from, DataURL: q.URL}
		if err := peer.CheckHolder(holder); q.End == cache.Arrived && err != nil {
			// It holds the file but nobody can fetch it there: pointing to it
			// would help nobody, so its read ended without use.
			return cache.Finish{Key: q.Key, From: cache.Holder{Peer: from}}, nil
		}
		if q.End > cache.Arrived {
			return nil, fmt.Errorf("question from %s ends a read in an unknown way, %d", from, q.End)
		}
		return cache.Finish{Key: q.Key, From: holder, End: q.End}, nil
	default:
		return nil, fmt.Errorf("question from %s is of unknown kind %.20q", from, q.Kind)
	}
}

// Answer encodes the answer of a home.
func Answer(a cache.Answer) []byte {
	r := reply{Key: a.Key, Number: a.Number, Verdict: a.Verdict}
	for _, h := range a.Holders[:min(len(a.Holders), maxHolders)] {
		r.Holders = append(r.Holders, holderText{Peer: h.Peer, URL: h.DataURL})
	}
	return encode(fromDesk, r)
}

// ReadAnswer turns a message into an answer; holders of impossible form are left out.
func ReadAnswer(data []byte) (cache.Answer, error) {
	var r reply
	if err := decode(fromDesk, data, &r); err != nil {
		return cache.Answer{}, fmt.Errorf("answer of a home: %w", err)
	}
	if _, err := cache.ParseKey(string(r.Key)); err != nil {
		return cache.Answer{}, fmt.Errorf("answer of a home: %w", err)
	}
	known := []cache.Verdict{cache.Granted, cache.WaitFor, cache.PointedTo, cache.GivenUp}
	if !slices.Contains(known, r.Verdict) {
		return cache.Answer{}, fmt.Errorf("answer of a home: unknown verdict %d", r.Verdict)
	}
	answer := cache.Answer{Key: r.Key, Number: r.Number, Verdict: r.Verdict}
	for _, h := range r.Holders[:min(len(r.Holders), maxHolders)] {
		holder := cache.Holder{Peer: h.Peer, DataURL: h.URL}
		if peer.CheckHolder(holder) == nil {
			answer.Holders = append(answer.Holders, holder)
		}
	}
	return answer, nil
}
