package wire

import (
	"testing"
	"time"

	"github.com/pilotage-grid/pilotage/cache"
	"github.com/pilotage-grid/pilotage/task"
)

// Messages from pilots: no crash, and what is accepted is encoded the same.
func FuzzMessages(f *testing.F) {
	for _, seed := range [][]byte{
		Question(cache.Ask{Key: "lfn:vo:a/b", Number: 3, Tried: []task.PeerID{"p"}}),
		Question(cache.Renew{Key: "lfn:a"}),
		Question(cache.Finish{Key: "lfn:a", From: cache.Holder{DataURL: "https://h:1"}, End: cache.Arrived}),
		Answer(cache.Answer{Key: "lfn:a", Verdict: cache.PointedTo, Holders: []cache.Holder{{Peer: "p", DataURL: "https://h:1"}}}),
		[]byte(`q{"kind":"ask","key":"lfn:../x"}`), []byte(`a{"verdict":0,"key":"lfn:a"}`), []byte("q"), {},
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		grants := cache.NewGrants(cache.GrantsConfig{})
		if event, err := ReadQuestion("p", data); err == nil {
			if data[0] != toDesk {
				t.Error("a question is not for the desk")
			}
			for _, action := range grants.Step(time.Unix(0, 0), event) {
				answer := action.(cache.Answer)
				read, err := ReadAnswer(Answer(answer))
				if err != nil || read.Key != answer.Key || read.Number != answer.Number || read.Verdict != answer.Verdict {
					t.Errorf("%+v reads as %+v, %v", answer, read, err)
				}
			}
		}
		if answer, err := ReadAnswer(data); err == nil && (data[0] == toDesk || len(answer.Holders) > maxHolders) {
			t.Errorf("accepted %+v", answer)
		}
	})
}
