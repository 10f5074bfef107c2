// host ROOT RUN IMAGE: the main job inside a Go program, which goes on with its own work and children; then a container's
// life by Go's own HTTP client over a private connection.
package main

/*
#include <stdlib.h>
#include "coracle.h"
char *host_look(const char *root, const char *run);
int host_job(const char *root, const char *run, const char *image, int report);
void host_free(char *text);
*/
import "C"

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

var passed, failed int

func check(fact bool, format string, more ...any) {
	if fact {
		passed++
		return
	}
	failed++
	fmt.Printf("failed: "+format+"\n", more...)
}

func look(root, run *C.char) map[string]bool {
	text := C.host_look(root, run)
	defer C.host_free(text)
	lines := map[string]bool{}
	for _, line := range strings.Split(C.GoString(text), "\n") {
		lines[line] = true
	}
	return lines
}

func child() int {
	var exit *exec.ExitError
	if errors.As(exec.Command("sh", "-c", "exit 7").Run(), &exit) {
		return exit.ExitCode()
	}
	return -1
}

func same(before, after map[string]bool) {
	for line := range before {
		check(after[line], "gone: %s", line)
	}
	for line := range after {
		check(before[line], "come: %s", line)
	}
}

// overHTTP uses the engine by a connection that has no path and no port.
func overHTTP(root, run *C.char) {
	options := C.coracle_open_options{run_dir: run}
	options.size = C.size_t(unsafe.Sizeof(options))
	var engine *C.coracle
	var problem *C.coracle_error
	status := C.coracle_open(root, &options, &engine, &problem)
	check(status == 0, "open: %s", C.GoString(C.coracle_error_message(problem)))
	defer C.coracle_close(engine)
	dial := func(context.Context, string, string) (net.Conn, error) {
		var fd C.int32_t
		if status := C.coracle_http_connect(engine, &fd, nil); status != 0 {
			return nil, fmt.Errorf("status %d", status)
		}
		file := os.NewFile(uintptr(fd), "coracle")
		defer file.Close()
		return net.FileConn(file)
	}
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	call := func(method, path, body string, wanted int) string {
		request, _ := http.NewRequest(method, "http://coracle/v1.24"+path, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(request)
		if err != nil {
			check(false, "%s %s: %v", method, path, err)
			return ""
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		check(err == nil && answer.StatusCode == wanted, "%s %s: %d %s", method, path, answer.StatusCode, text)
		return string(text)
	}
	call("POST", "/containers/create?name=go", `{"Image":"busybox","Cmd":["echo","from go"],"HostConfig":{"NetworkMode":"none"}}`, 201)
	call("POST", "/containers/go/start", "", 204)
	check(strings.Contains(call("POST", "/containers/go/wait", "", 200), `"StatusCode":0`), "its status")
	check(strings.Contains(call("GET", "/containers/go/logs?stdout=1", "", 200), "from go\n"), "its log")
	call("DELETE", "/containers/go", "", 204)
}

func main() {
	root, run, image := C.CString(os.Args[1]), C.CString(os.Args[2]), C.CString(os.Args[3])
	ended := make(chan os.Signal, 1000)
	signal.Notify(ended, syscall.SIGCHLD)
	child()
	// The signal of a child may come after the child's status: the first one is awaited and counted, as all later ones are.
	<-ended
	before := look(root, run)
	result := make(chan C.int)
	go func() { result <- C.host_job(root, run, image, 2) }()
	children := 1
	for running := true; running; {
		children++
		check(child() == 7, "the status of a child of its own")
		runtime.GC()
		select {
		case code := <-result:
			check(code == 0, "the main job: %d", code)
			running = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	overHTTP(root, run)
	// Threads that end may take a moment.
	after := look(root, run)
	for end := time.Now().Add(5 * time.Minute); !reflect.DeepEqual(before, after) && time.Now().Before(end); after = look(root, run) {
		time.Sleep(50 * time.Millisecond)
	}
	same(before, after)
	check(len(ended) <= children, "SIGCHLD came for its own children only: %d for %d", len(ended), children)
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if failed != 0 {
		os.Exit(1)
	}
}
