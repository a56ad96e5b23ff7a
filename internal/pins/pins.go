//go:build pins

// Package pins is never built. It names the modules that are pinned in go.mod
// ahead of the code that will import them, so that `go mod tidy` keeps them;
// once every line is imported elsewhere the package goes away.
package pins

import (
	_ "cel.dev/cel-go/cel"
	_ "github.com/goccy/go-yaml"
	_ "github.com/hashicorp/golang-lru/v2/simplelru"
	_ "github.com/landlock-lsm/go-landlock/landlock"
	_ "github.com/libp2p/go-libp2p"
	_ "github.com/libp2p/go-libp2p-kad-dht"
	_ "github.com/mr-tron/base58"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/spf13/cobra"
	_ "github.com/tidwall/btree"
	_ "github.com/vbauerster/mpb/v8"
	_ "github.com/zeebo/blake3"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"
	_ "google.golang.org/grpc"
	_ "google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite"
	_ "pgregory.net/rapid"
)
