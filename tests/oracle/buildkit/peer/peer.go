//go:build peer

// Package peer names the programs that the comparison builds, so that go.mod keeps them.
package peer

import (
	_ "github.com/moby/buildkit/cmd/buildctl"
	_ "github.com/moby/buildkit/cmd/buildkitd"
)
