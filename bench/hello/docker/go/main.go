// hello SOCKET: prints a container's hello by Docker's client for Go, then waits for the end of its input.
package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	docker := must(client.New(client.WithHost("unix://" + os.Args[1])))
	box := must(docker.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: "busybox", Cmd: []string{"echo", "hello"}, AttachStdout: true, AttachStderr: true},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
	}))
	attached := must(docker.ContainerAttach(ctx, box.ID, client.ContainerAttachOptions{Stream: true, Stdout: true, Stderr: true}))
	wait := docker.ContainerWait(ctx, box.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	must(docker.ContainerStart(ctx, box.ID, client.ContainerStartOptions{}))
	must(stdcopy.StdCopy(os.Stdout, os.Stderr, attached.Reader))
	attached.Close()
	select {
	case err := <-wait.Error:
		log.Fatal(err)
	case <-wait.Result:
	}
	must(docker.ContainerRemove(ctx, box.ID, client.ContainerRemoveOptions{}))
	must(io.ReadAll(os.Stdin))
}
