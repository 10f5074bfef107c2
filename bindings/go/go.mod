module coracle.dev/go

go 1.23
