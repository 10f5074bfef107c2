module hello

go 1.23

require coracle.dev/go v0.0.0

replace coracle.dev/go => ../../../bindings/go
