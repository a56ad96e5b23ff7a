package server_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	pb "github.com/pilotage-grid/pilotage/proto/pilotage/v1"
)

// spoiler fills messages with what nobody should send.
type spoiler struct {
	*rand.Rand
	texts []string
}

func newSpoiler(seed uint64, known ...string) *spoiler {
	return &spoiler{
		Rand: rand.New(rand.NewPCG(seed, 1)),
		texts: append([]string{
			"", "x", "..", "../../etc/passwd", "a/../b", "-rf", "a\x00b", "\x1b[2J", "vo:", "w-aaaaaaaaaa", "w-aaaaaaaaaa/t", "p-aaaaaaaa",
			"w-aaaaaaaaaa:f", "/t", "file://", "file:///x", "http://[::1", "https://user:password@host/", "{a..b}", "true &&", "\u202e",
			strings.Repeat("a", 3000), strings.Repeat("[", 300), "siteA",
		}, known...),
	}
}

var numbers = []int64{0, 1, -1, 2, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64}

func (s *spoiler) scalar(f protoreflect.FieldDescriptor) protoreflect.Value {
	n := numbers[s.IntN(len(numbers))]
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(s.texts[s.IntN(len(s.texts))])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(make([]byte, []int{0, 1, 31, 32, 64, 70_000}[s.IntN(6)]))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(s.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber([]int32{0, 1, 2, 3, 7, 99, -1, math.MaxInt32}[s.IntN(8)]))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(math.NaN())
	default:
		return protoreflect.ValueOfInt32(int32(n))
	}
}

func (s *spoiler) fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case s.IntN(4) == 0 || depth > 5:
		case f.IsMap():
			for range s.IntN(3) {
				m.Mutable(f).Map().Set(s.scalar(f.MapKey()).MapKey(), s.scalar(f.MapValue()))
			}
		case f.IsList():
			list := m.Mutable(f).List()
			for range s.IntN(4) {
				if f.Message() == nil {
					list.Append(s.scalar(f))
					continue
				}
				element := list.NewElement()
				s.fill(element.Message(), depth+1)
				list.Append(element)
			}
		case f.Message() != nil:
			s.fill(m.Mutable(f).Message(), depth+1)
		default:
			m.Set(f, s.scalar(f))
		}
	}
}

// Whatever a known caller sends, the answer is a decision, not a breakdown,
// and the queue goes on.
func TestMalformedRequests(t *testing.T) {
	onBoth(t, func(t *testing.T, store option) {
		q := start(t, store)
		q.addSite("siteA")
		q.addSite("siteB")
		p := q.join("siteA")
		p.introduce()
		workflow := q.mustSubmit(single("victim"))
		callers := map[string]*client{"TaskService": q.submit(), "FileService": q.submit(), "SiteService": q.admin(), "PilotService": p.client}
		token := q.dial(q.access("pilot-siteA").Token, nil)
		for _, service := range serviceDescriptions() {
			descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service.ServiceName))
			if err != nil {
				t.Fatal(err)
			}
			methods := descriptor.(protoreflect.ServiceDescriptor).Methods()
			for i := range methods.Len() {
				m := methods.Get(i)
				caller := callers[string(descriptor.Name())]
				switch m.Name() {
				case "Register":
					caller = token
				case "ListPilots", "GetPilot", "DrainPilot":
					caller = callers["SiteService"]
				}
				for seed := range uint64(12) {
					s := newSpoiler(seed, workflow, workflow+"/only", "victim", p.id)
					in := dynamicpb.NewMessage(m.Input())
					s.fill(in, 0)
					s.direct(in, p)
					name := fmt.Sprintf("/%s/%s", service.ServiceName, m.Name())
					checkDecision(t, q, caller, name, in, m, seed)
				}
			}
		}
		if _, err := q.submit().GetTask(q.ctx, &pb.GetTaskRequest{TaskId: workflow + "/only"}); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		if status, text := q.get("/healthz"); status != 200 {
			t.Errorf("afterwards the queue is ill: %s", text)
		}
	})
}

// direct gives half of the requests a site and a term that lead them past the
// first refusal.
func (s *spoiler) direct(in *dynamicpb.Message, p *pilot) {
	fields := in.Descriptor().Fields()
	if f := fields.ByName("follow"); f != nil {
		in.Clear(f) // such a stream has no end to wait for
	}
	if f := fields.ByName("site"); f != nil && s.IntN(2) == 0 {
		in.Set(f, protoreflect.ValueOfString(p.site))
	}
	if f := fields.ByName("term"); f != nil && s.IntN(2) == 0 {
		term := dynamicpb.NewMessage(f.Message())
		wire, _ := proto.Marshal(p.term)
		_ = proto.Unmarshal(wire, term)
		in.Set(f, protoreflect.ValueOfMessage(term))
	}
	if f := fields.ByName("hold"); f != nil {
		in.Clear(f)
	}
}

func checkDecision(t *testing.T, q *queue, c *client, name string, in *dynamicpb.Message, m protoreflect.MethodDescriptor, seed uint64) {
	t.Helper()
	out := dynamicpb.NewMessage(m.Output())
	var err error
	if m.IsStreamingServer() {
		var s grpc.ClientStream
		if s, err = c.NewStream(q.ctx, &grpc.StreamDesc{ServerStreams: true}, name); err == nil {
			if err = s.SendMsg(in); err == nil {
				if err = s.CloseSend(); err == nil {
					if err = s.RecvMsg(out); errors.Is(err, io.EOF) {
						err = nil // a list without anything in it
					}
				}
			}
		}
	} else {
		err = c.Invoke(q.ctx, name, in, out)
	}
	switch status.Code(err) {
	case codes.OK, codes.InvalidArgument, codes.NotFound, codes.Aborted, codes.PermissionDenied, codes.FailedPrecondition, codes.ResourceExhausted:
	default:
		t.Errorf("%s, seed %d: %v\n%v", name, seed, err, in)
	}
}
