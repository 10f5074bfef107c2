// hello ROOT [CALLS]: prints a container's hello, then waits for the end of its input; or what a call takes, in nanoseconds.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	coracle "coracle.dev/go"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func hello(ctx context.Context, engine *coracle.Engine) {
	box := must(engine.Containers.Create(ctx, "", coracle.M{
		"Image": "busybox", "Cmd": []string{"echo", "hello"}, "HostConfig": coracle.M{"NetworkMode": "none"},
	}))
	session := must(box.StartAttached(ctx, coracle.IO{}))
	check(session.Communicate(ctx, strings.NewReader(""), os.Stdout, os.Stderr))
	must(session.Wait(ctx))
	check(session.Close())
	check(box.Remove(ctx, coracle.RemoveOptions{}))
	must(io.ReadAll(os.Stdin))
}

func calls(ctx context.Context, engine *coracle.Engine, count int) {
	begun := time.Now()
	for done := 0; done < count; done++ {
		must(engine.Containers.List(ctx, coracle.ListOptions{}))
	}
	fmt.Println(time.Since(begun).Nanoseconds() / int64(count))
}

func main() {
	ctx := context.Background()
	engine := must(coracle.Open(os.Args[1], nil))
	defer engine.Close()
	if len(os.Args) > 2 {
		calls(ctx, engine, must(strconv.Atoi(os.Args[2])))
	} else {
		hello(ctx, engine)
	}
}
