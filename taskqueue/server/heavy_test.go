package server_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pilotage-grid/pilotage/identity"
	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// zeros is content that takes no memory.
type zeros struct{}

func (zeros) Read(to []byte) (int, error) {
	clear(to)
	return len(to), nil
}

// submissionOf is one gRPC message that submits a task whose script has so many bytes.
func submissionOf(script int64) io.Reader {
	wrap := func(field protowire.Number, content int64, inner []byte) []byte {
		head := protowire.AppendTag(nil, field, protowire.BytesType)
		return append(protowire.AppendVarint(head, uint64(content)+uint64(len(inner))), inner...)
	}
	head := wrap((&pb.Task{}).ProtoReflect().Descriptor().Fields().ByName("shell").Number(), script, nil)
	head = wrap((&pb.SubmitWorkflowRequest{}).ProtoReflect().Descriptor().Fields().ByName("tasks").Number(), script, head)
	message := binary.BigEndian.AppendUint32([]byte{0}, uint32(int64(len(head))+script))
	return io.MultiReader(bytes.NewReader(append(message, head...)), io.LimitReader(zeros{}, script))
}

// TestLargeMessagesFillNoMemory has somebody with an access send many large messages at
// once, over one connection and over many. The queue's memory stays bounded, and calls of
// others are answered.
func TestLargeMessagesFillNoMemory(t *testing.T) {
	q := start(t)
	made, err := q.admin().CreateAccess(q.ctx, &pb.CreateAccessRequest{Role: "submit", Label: "heavy"})
	if err != nil {
		t.Fatal(err)
	}
	var access identity.AccessFile
	if err := json.Unmarshal(made.GetAccessFile(), &access); err != nil {
		t.Fatal(err)
	}
	config, err := identity.QueueClientTLS(q.caPEM(), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	others := q.submit()
	live := func() uint64 {
		var memory runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&memory)
		return memory.HeapAlloc
	}
	before := live()
	for _, mib := range []int64{200, 60} { // of which the queue refuses the first by their size
		var senders sync.WaitGroup
		var refused atomic.Int64
		for connection := range 4 {
			transport := &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true}
			defer transport.CloseIdleConnections()
			for range 16 - 4*connection {
				senders.Go(func() {
					request, err := http.NewRequestWithContext(q.ctx, http.MethodPost, "https://"+q.server.Addresses().GRPC+"/pilotage.v1.TaskService/SubmitWorkflow", submissionOf(mib<<20))
					if err != nil {
						t.Error(err)
						return
					}
					request.Header.Set("Content-Type", "application/grpc")
					request.Header.Set("Te", "trailers")
					request.Header.Set("Authorization", "Bearer "+access.Token)
					answer, err := transport.RoundTrip(request)
					if err == nil {
						_, _ = io.Copy(io.Discard, answer.Body)
						_ = answer.Body.Close()
					}
					if err != nil || answer.Trailer.Get("Grpc-Status")+answer.Header.Get("Grpc-Status") != "0" {
						refused.Add(1)
					}
				})
			}
		}
		over := make(chan struct{})
		go func() {
			senders.Wait()
			close(over)
		}()
		for most := before; ; {
			if _, err := others.ListWorkflows(q.ctx, &pb.ListWorkflowsRequest{}); err != nil {
				t.Errorf("messages of %d MiB: another user is not served: %v", mib, err)
			}
			most = max(most, live())
			select {
			case <-over:
				t.Logf("messages of %d MiB: %d refused, %d MiB of memory", mib, refused.Load(), (most-before)>>20)
				if limit := uint64(3*128 + 16); most-before > limit<<20 {
					t.Errorf("messages of %d MiB took %d MiB of the queue's memory, at most %d should", mib, (most-before)>>20, limit)
				}
				if refused.Load() == 0 {
					t.Errorf("40 messages of %d MiB at once were taken", mib)
				}
			case <-time.After(20 * time.Millisecond):
				continue
			}
			break
		}
	}
}

// Answers that nobody reads are in the queue's memory: whoever leaves too many of them,
// over however many connections, is refused until they are gone.
func TestAnswersThatNobodyReadsAreBounded(t *testing.T) {
	q := start(t)
	request := &pb.SubmitWorkflowRequest{IdempotencyKey: "k", Name: "w"}
	for i := range 20 {
		long := plain(fmt.Sprint("t", i))
		long.Argv, long.Shell = nil, strings.Repeat("#", 8<<10)
		request.Tasks = append(request.Tasks, long)
	}
	id := q.mustSubmit(request)
	token := q.access("submit").Token
	list := &pb.ListTasksRequest{Workflow: id, PageSize: 1000, Full: true} // more than a stream's window
	var lazy *client
	var clients []*client
	left := 0
	for ; left < 1000; left++ {
		if left%200 == 0 {
			var err error
			if lazy, err = connect(q.server.Addresses().GRPC, q.caPEM(), token, nil, grpc.WithStaticStreamWindowSize(65535), grpc.WithStaticConnWindowSize(1<<24)); err != nil {
				t.Fatal(err)
			}
			defer lazy.Close()
			clients = append(clients, lazy)
		}
		stream, err := lazy.NewStream(q.ctx, &grpc.StreamDesc{ServerStreams: true}, pb.TaskService_ListTasks_FullMethodName)
		if err == nil {
			err = errors.Join(stream.SendMsg(list), stream.CloseSend())
		}
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := stream.Header(); answer == nil { // it was refused
			wantRefusal(t, cmp.Or(err, stream.RecvMsg(&pb.ListTasksResponse{})), codes.ResourceExhausted, "BUSY")
			break
		}
	}
	if left < 512 || left > 700 {
		t.Errorf("%d answers are left lying", left)
	}
	if _, err := q.admin().ListTasks(q.ctx, list); err != nil {
		t.Errorf("somebody else: %v", err)
	}
	for _, c := range clients {
		_ = c.Close()
	}
	people := q.submit()
	q.eventually("the answers are gone", func() bool {
		_, err := people.ListTasks(q.ctx, list)
		return err == nil
	})
}
