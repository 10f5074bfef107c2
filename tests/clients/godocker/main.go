// Execs and attaches by go-dockerclient: godocker ENDPOINT COUNT RUNNING ENDED OUTPUT. The output has the form of
// lost.py's.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	docker "github.com/fsouza/go-dockerclient"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	client, err := docker.NewVersionedClient(os.Args[1], "1.24")
	check(err)
	count, err := strconv.Atoi(os.Args[2])
	check(err)
	running, ended, output := os.Args[3], os.Args[4], os.Args[5]+"\n"
	for number := 0; number < count; number++ {
		text := fmt.Sprintf("hello %d", number)
		exec, err := client.CreateExec(docker.CreateExecOptions{
			Container: running, Cmd: []string{"echo", text}, AttachStdout: true, AttachStderr: true,
		})
		check(err)
		var out, complaints bytes.Buffer
		check(client.StartExec(exec.ID, docker.StartExecOptions{OutputStream: &out, ErrorStream: &complaints}))
		if out.String() != text+"\n" {
			fmt.Printf("lost exec %q\n", out.String())
		}
		var told bytes.Buffer
		check(client.AttachToContainer(docker.AttachToContainerOptions{
			Container: ended, OutputStream: &told, ErrorStream: &complaints, Logs: true, Stdout: true,
			Stderr: true,
		}))
		if told.String() != output {
			fmt.Printf("lost attach %q\n", told.String())
		}
	}
	fmt.Println("done", count)
}
