module test.invalid/plugin

go 1.21

require (
	github.com/containerd/fifo v1.1.0
	github.com/docker/docker v20.10.24+incompatible
	github.com/docker/go-plugins-helpers v0.0.0-20240701071450-45e2431495c8
	golang.org/x/net v0.17.0
)

require (
	github.com/Microsoft/go-winio v0.6.1 // indirect
	github.com/coreos/go-systemd v0.0.0-20191104093116-d3cd4ed1dbcf // indirect
	github.com/docker/go-connections v0.5.0 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	golang.org/x/mod v0.8.0 // indirect
	golang.org/x/sys v0.13.0 // indirect
	golang.org/x/tools v0.6.0 // indirect
)
