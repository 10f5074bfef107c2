// Testcontainers for Go without its reaper, on an image that is here; the last line is `done`.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
)

func check(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func same(found, wanted any) {
	if found != wanted {
		check(fmt.Errorf("found %q, wanted %q", found, wanted))
	}
}

func text(reader io.Reader) string {
	bytes, err := io.ReadAll(reader)
	check(err)
	return string(bytes)
}

func main() {
	ctx := context.Background()
	wire, err := network.New(ctx)
	check(err)
	server, err := testcontainers.Run(ctx, "busybox:latest",
		testcontainers.WithCmd("sh", "-c", "echo ready; echo hi > /index.html; exec httpd -f -p 8080 -h /"),
		testcontainers.WithEnv(map[string]string{"KIND": "server"}),
		testcontainers.WithExposedPorts("8080/tcp"),
		network.WithNetwork([]string{"web"}, wire),
		testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader("copied\n"), ContainerFilePath: "/copied", FileMode: 0o644,
		}),
		testcontainers.WithWaitStrategy(wait.ForLog("ready"), wait.ForHTTP("/index.html").WithPort("8080/tcp")),
	)
	check(err)
	code, output, err := server.Exec(ctx, []string{"sh", "-c", "echo $KIND; cat /copied; exit 3"}, tcexec.Multiplexed())
	check(err)
	same(code, 3)
	same(text(output), "server\ncopied\n")
	address, err := server.PortEndpoint(ctx, "8080/tcp", "http")
	check(err)
	page, err := http.Get(address + "/index.html")
	check(err)
	same(text(page.Body), "hi\n")
	client, err := testcontainers.Run(ctx, "busybox:latest",
		testcontainers.WithCmd("wget", "-qO-", "http://web:8080/index.html"),
		network.WithNetwork([]string{"client"}, wire),
		testcontainers.WithWaitStrategy(wait.ForExit()),
	)
	check(err)
	logs, err := client.Logs(ctx)
	check(err)
	same(text(logs), "hi\n")
	state, err := client.State(ctx)
	check(err)
	same(state.ExitCode, 0)
	none := time.Duration(0)
	check(server.Stop(ctx, &none))
	check(server.Start(ctx))
	check(client.Terminate(ctx))
	check(server.Terminate(ctx, testcontainers.StopTimeout(none)))
	check(wire.Remove(ctx))
	fmt.Println("done")
}
