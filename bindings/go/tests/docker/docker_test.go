// The Docker client package of Go works in process: no socket, no port.
package docker

import (
	"bytes"
	"context"
	"os"
	"testing"

	coracle "coracle.dev/go"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestDockerClientInProcess(t *testing.T) {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "gdc-"))(t)
	defer os.RemoveAll(dir)
	engine := must(coracle.Open(dir+"/root", &coracle.OpenOptions{RunDir: dir + "/run", Config: coracle.M{"durability": "off"}}))(t)
	defer engine.Close()
	file := must(os.Open(os.Getenv("CORACLE_TEST_IMAGE")))(t)
	defer file.Close()
	names := must(engine.Images.Load(ctx, file, nil))(t)

	docker := must(client.New(client.WithHost("tcp://coracle:80"), client.WithDialContext(engine.DialContext)))(t)
	defer docker.Close()
	must(docker.Ping(ctx, client.PingOptions{}))(t)
	made := must(docker.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: names[0], Cmd: []string{"sh", "-c", "cat; exit 4"}, OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true},
		HostConfig: &container.HostConfig{NetworkMode: "none"},
		Name:       "by-docker",
	}))(t)
	attached := must(docker.ContainerAttach(ctx, made.ID, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true}))(t)
	defer attached.Close()
	wait := docker.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	must(docker.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}))(t)
	must(attached.Conn.Write([]byte("through the private connection\n")))(t)
	if err := attached.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	must(stdcopy.StdCopy(&stdout, &stdout, attached.Reader))(t)
	if stdout.String() != "through the private connection\n" {
		t.Errorf("%q", stdout.String())
	}
	select {
	case err := <-wait.Error:
		t.Fatal(err)
	case answer := <-wait.Result:
		if answer.StatusCode != 4 {
			t.Errorf("exit code %d", answer.StatusCode)
		}
	}
	must(docker.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{}))(t)
}
