package server_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// cachedOutput has a pilot of a site without storage make a final output.
func cachedOutput(t *testing.T, options ...option) (q *queue, p *pilot, name string) {
	return cachedOutputOf(t, 5, options...)
}

func cachedOutputOf(t *testing.T, size int64, options ...option) (q *queue, p *pilot, name string) {
	q = start(t, options...)
	if _, err := q.admin().AddSite(q.ctx, &pb.AddSiteRequest{Settings: &pb.SiteSettings{Name: "siteA"}}); err != nil {
		t.Fatal(err)
	}
	p = q.join("siteA")
	p.introduce()
	request := single("flow")
	request.Tasks[0].Outputs = []*pb.Binding{{Lfn: "out", Name: "out"}}
	request.Outputs, request.Group = []string{"out"}, "*"
	id := q.mustSubmit(request)
	var lease *pb.Lease
	q.eventually("the task is leased", func() bool {
		reply, err := p.Sync(q.ctx, p.report(0))
		if err == nil && len(reply.GetLeases()) > 0 {
			lease = reply.GetLeases()[0]
		}
		return lease != nil
	})
	told := p.report(0, lease)
	told.Outcomes = []*pb.Outcome{p.outcome(lease, 0)}
	told.Outcomes[0].GetOutputs()[0].SizeBytes = size
	if _, err := p.Sync(q.ctx, told); err != nil {
		t.Fatal(err)
	}
	return q, p, id + ":out"
}

// wanted is what the pilot's parked Sync is answered once somebody waits.
func (p *pilot) wanted() *pb.WantedFile {
	p.q.t.Helper()
	for range 100 {
		reply, err := p.Sync(p.q.ctx, p.report(time.Second))
		if err != nil {
			p.q.t.Fatal(err)
		}
		if len(reply.GetWanted()) > 0 {
			return reply.GetWanted()[0]
		}
	}
	p.q.t.Fatal("nothing is wanted")
	return nil
}

func (p *pilot) send(messages ...*pb.SendFileRequest) error {
	stream, err := p.SendFile(p.q.ctx)
	if err != nil {
		p.q.t.Fatal(err)
	}
	for _, m := range messages {
		if err := stream.Send(m); err != nil {
			break // the answer says why
		}
	}
	_, err = stream.CloseAndRecv()
	return err
}

func received(stream grpc.ServerStreamingClient[pb.FetchFileResponse]) (text string, err error) {
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return text, nil
		}
		if err != nil {
			return text, err
		}
		text += string(message.GetData())
	}
}

// A file that only caches of a site have of which nobody is heard any more is
// refused within seconds, and the next one at once.
func TestFilesOfASilentSiteAreNotWaitedFor(t *testing.T) {
	q, _, name := cachedOutput(t, func(c *serverConfig) { c.Timing.RelaySilence = time.Second })
	for range 3 {
		stream, err := q.submit().FetchFile(q.ctx, &pb.FetchFileRequest{Lfn: name})
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Recv()
		wantRefusal(t, err, codes.Aborted, "CONFLICT")
		if !strings.Contains(err.Error(), "none of its pilots is heard") {
			t.Error(err)
		}
	}
}

// A client gets what a pilot sends, no more than the file has, and the reason when
// there is none.
func TestFilesPassThroughTheQueue(t *testing.T) {
	q, p, name := cachedOutput(t)
	for what, c := range map[string]struct {
		sent []*pb.SendFileRequest // without the id
		text string
		code codes.Code
	}{
		"whole":    {[]*pb.SendFileRequest{{Data: []byte("he")}, {Data: []byte("llo")}}, "hello", codes.OK},
		"too much": {[]*pb.SendFileRequest{{Data: []byte("hel")}, {Data: []byte("lo!")}}, "hel", codes.DataLoss},
		"nothing":  {[]*pb.SendFileRequest{{Failure: "it has left the cache"}}, "", codes.Aborted},
	} {
		t.Run(what, func(t *testing.T) {
			stream, err := q.submit().FetchFile(q.ctx, &pb.FetchFileRequest{Lfn: name})
			if err != nil {
				t.Fatal(err)
			}
			c.sent[0].Id = p.wanted().GetId()
			if err := p.send(c.sent...); status.Code(err) != c.code {
				t.Errorf("the pilot hears %v", err)
			}
			if text, err := received(stream); text != c.text || status.Code(err) != c.code {
				t.Errorf("%q, %v", text, err)
			}
			if err := p.send(&pb.SendFileRequest{Id: c.sent[0].GetId()}); status.Code(err) != codes.NotFound {
				t.Errorf("sent again: %v", err)
			}
		})
	}
	if stream, err := q.submit().FetchFile(q.ctx, &pb.FetchFileRequest{Lfn: "w-aaaaaaaaaa:none"}); err != nil {
		t.Error(err)
	} else if _, err := stream.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
}

// The queue passes a bounded number of files, a quarter of them to one person at most, and
// is free again when clients go.
func TestFilesThroughTheQueueAreBounded(t *testing.T) {
	q, _, name := cachedOutput(t)
	full := func(people *client) bool {
		stream, err := people.FetchFile(q.ctx, &pb.FetchFileRequest{Lfn: name})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := stream.Recv()
			done <- err
		}()
		select {
		case err := <-done:
			return status.Code(err) == codes.ResourceExhausted
		case <-time.After(100 * time.Millisecond):
			return false
		}
	}
	for _, person := range []string{"alice", "bob", "carol", "dave", "erin"} {
		people, n := q.person(person), 0
		for n < 5 && !full(people) {
			n++
		}
		if want := map[bool]int{false: 4, true: 0}[person == "erin"]; n != want {
			t.Errorf("%d files pass to %s, want %d", n, person, want)
		}
	}
}

// A client that reads nothing loses its place.
func TestAFileThatIsNotTakenIsNotWaitedFor(t *testing.T) {
	q, p, name := cachedOutputOf(t, 1<<40, func(c *serverConfig) { c.Timing.RelayPatience = time.Second })
	stream, err := q.submit().FetchFile(q.ctx, &pb.FetchFileRequest{Lfn: name})
	if err != nil {
		t.Fatal(err)
	}
	sending, err := p.SendFile(q.ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := p.wanted().GetId()
	for err == nil { // until the queue takes no more of it
		err = sending.Send(&pb.SendFileRequest{Id: id, Data: make([]byte, 1<<20)})
	}
	for err = nil; err == nil; _, err = stream.Recv() {
	}
	wantRefusal(t, err, codes.Aborted, "CONFLICT")
}

// Caches are gone with the pilots of a site, also where the catalogue still looks for what
// they had.
func TestNoFileIsInCachesOfASiteWithoutPilots(t *testing.T) {
	q, p, name := cachedOutput(t)
	cached := func() int {
		t.Helper()
		located, err := q.admin().LocateFile(q.ctx, &pb.LocateFileRequest{Lfn: name})
		if err != nil {
			t.Fatal(err)
		}
		listed, err := q.admin().ListFiles(q.ctx, &pb.ListFilesRequest{Prefix: name})
		if err != nil || len(listed.GetFiles()) != 1 || len(listed.GetFiles()[0].GetAnnounced()) != len(located.GetFile().GetAnnounced()) {
			t.Fatalf("listed %v, located %v, %v", listed, located, err)
		}
		return len(located.GetFile().GetAnnounced())
	}
	if n := cached(); n != 1 {
		t.Errorf("in caches of %d sites while its pilot lives", n)
	}
	if _, err := p.Leave(q.ctx, &pb.LeaveRequest{Site: "siteA", Reason: "end", Last: true}); err != nil {
		t.Fatal(err)
	}
	if n := cached(); n != 0 {
		t.Errorf("in caches of %d sites after their last pilot", n)
	}
}
