package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// MaxMessage bounds one message from the queue: a hand-out of 20,000 tasks with their
// files. MaxToQueue bounds one to it: a large part of a submission, or the dry run of some
// 300,000 tasks.
const (
	MaxMessage = 256 << 20
	MaxToQueue = MaxMessage / 4
)

// A lease clock may be running, and people wait at terminals: come back soon
// after an outage. By default the pauses would grow to two minutes.
var reconnect = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.5, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Queue connects to the first of the queue's addresses (HOST:PORT) that
// answers, when the first call is made; gRPC reconnects by itself. token, if
// not nil, is asked for the access token of each call. Further options count
// beside our own. An empty list of addresses is an error.
func Queue(addresses []string, config *tls.Config, token func() string, further ...grpc.DialOption) (*grpc.ClientConn, error) {
	if len(addresses) == 0 {
		return nil, errors.New("the access file names no queue address")
	}
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithConnectParams(reconnect),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithChainUnaryInterceptor(plainCall, patientCall),
		grpc.WithChainStreamInterceptor(plainStream),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
	}
	if token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer(token)))
	}
	known := manual.NewBuilderWithScheme("pilotage")
	state := resolver.State{}
	for _, address := range addresses {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: address})
	}
	known.InitialState(state)
	connection, err := grpc.NewClient(known.Scheme()+":///queue", append(append(options, grpc.WithResolvers(known)), further...)...)
	if err != nil {
		return nil, fmt.Errorf("open the connection to the queue: %w", err)
	}
	return connection, nil
}

type bearer func() string

// GetRequestMetadata satisfies credentials.PerRPCCredentials.
func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b()}, nil
}

// RequireTransportSecurity satisfies credentials.PerRPCCredentials.
func (b bearer) RequireTransportSecurity() bool { return true }
