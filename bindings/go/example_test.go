package coracle_test

// The five programs of the guide, as examples that `go test` runs and whose output it compares.

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	coracle "coracle.dev/go"
)

// room is an engine with an image on a root of its own, and the function that removes both.
func room() (*coracle.Engine, string, func()) {
	dir, err := os.MkdirTemp("", "exa-")
	if err != nil {
		log.Fatal(err)
	}
	engine, err := coracle.Open(dir+"/root", &coracle.OpenOptions{RunDir: dir + "/run", Config: coracle.M{"durability": "off"}})
	if err != nil {
		log.Fatal(err)
	}
	file, err := os.Open(os.Getenv("CORACLE_TEST_IMAGE"))
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	names, err := engine.Images.Load(context.Background(), file, nil)
	if err != nil {
		log.Fatal(err)
	}
	return engine, names[0], func() {
		engine.Networks.Release(context.Background())
		engine.Close()
		os.RemoveAll(dir)
	}
}

// Runs a command and streams its input and output.
func Example_run() {
	engine, image, end := room()
	defer end()
	ctx := context.Background()
	container, err := engine.Containers.Create(ctx, "", coracle.M{
		"Image": image, "Cmd": []string{"sh", "-c", "tr a-z A-Z; echo done >&2; exit 3"},
		"OpenStdin": true, "StdinOnce": true, "HostConfig": coracle.M{"NetworkMode": "none"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer container.Remove(ctx, coracle.RemoveOptions{Force: true})
	session, err := container.StartAttached(ctx, coracle.IO{})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	var stderr bytes.Buffer
	if err := session.Communicate(ctx, bytes.NewBufferString("hello\n"), os.Stdout, &stderr); err != nil {
		log.Fatal(err)
	}
	code, err := session.Wait(ctx)
	fmt.Println(stderr.String(), code, err)
	// Output:
	// HELLO
	// done
	//  3 <nil>
}

// Runs jobs with deadlines, whose containers end with this program, however it ends.
func Example_jobs() {
	engine, image, end := room()
	defer end()
	lease, err := engine.Lease("jobs")
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Close()
	job := func(script string, limit time.Duration) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		container, err := engine.Containers.Create(ctx, "", coracle.M{
			"Image": image, "Cmd": []string{"sh", "-c", script},
			"Labels": coracle.M{"coracle.lease": "jobs"}, "HostConfig": coracle.M{"NetworkMode": "none"},
		})
		if err != nil {
			log.Fatal(err)
		}
		defer container.Remove(context.Background(), coracle.RemoveOptions{Force: true})
		if _, err = container.Start(ctx); err != nil {
			log.Fatal(err)
		}
		code, err := container.Wait(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			fmt.Println(script, "took too long")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(script, "ended with", code)
		}
	}
	job("exit 7", 5*time.Minute)
	job("sleep 1000", 2*time.Second)
	// Output:
	// exit 7 ended with 7
	// sleep 1000 took too long
}

// Watches events, and starts a service again when it dies.
func Example_supervisor() {
	engine, image, end := room()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	events, err := engine.Events(ctx, coracle.EventsOptions{Filters: map[string][]string{"event": {"start", "die"}}})
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()
	service, err := engine.Containers.Create(ctx, "service", coracle.M{
		"Image": image, "Cmd": []string{"sh", "-c", "read x; exit 1"}, "OpenStdin": true, "HostConfig": coracle.M{"NetworkMode": "none"},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer service.Remove(context.Background(), coracle.RemoveOptions{Force: true})
	if _, err = service.Start(ctx); err != nil {
		log.Fatal(err)
	}
	starts := 0
	for event, err := range events.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Action + event.Actor.Attributes["exitCode"])
		if event.Action == "die" {
			if starts == 2 {
				break
			}
			if _, err = service.Start(ctx); err != nil {
				log.Fatal(err)
			}
			continue
		}
		starts++
		sample, err := service.Stats(ctx)
		if err != nil {
			log.Fatal(err)
		}
		var used struct {
			Pids struct{ Current int } `json:"pids_stats"`
		}
		if err = sample.Decode(&used); err != nil {
			log.Fatal(err)
		}
		fmt.Println("processes:", used.Pids.Current)
		if err = service.Kill(ctx, ""); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// start
	// processes: 1
	// die137
	// start
	// processes: 1
	// die137
}

// Builds an image, and pushes it to a registry.
func Example_build() {
	engine, image, end := room()
	defer end()
	ctx := context.Background()
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	for name, text := range map[string]string{"Dockerfile": "FROM " + image + "\nCOPY note /note\nCMD cat /note\n", "note": "apple\n"} {
		if err := writer.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			log.Fatal(err)
		}
		if _, err := io.WriteString(writer, text); err != nil {
			log.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		log.Fatal(err)
	}
	name := os.Getenv("CORACLE_TEST_REGISTRY") + "/fruit:v1"
	steps := 0
	_, err := engine.Images.Build(ctx, &archive, coracle.M{"t": []string{name}}, func(record coracle.Progress) error {
		if len(record.Stream) > 5 && record.Stream[:5] == "Step " {
			steps++
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	pushed, err := engine.Images.Push(ctx, name, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(steps, "steps;", pushed.Tag, pushed.Digest[:7])
	// Output:
	// 3 steps; v1 sha256:
}

// Two containers on a network find each other by name.
func Example_network() {
	engine, image, end := room()
	defer end()
	ctx := context.Background()
	if _, err := engine.Networks.Create(ctx, coracle.M{"Name": "wire"}); err != nil {
		log.Fatal(err)
	}
	defer engine.Networks.Remove(ctx, "wire")
	start := func(name, script string) *coracle.Container {
		made, err := engine.Containers.Create(ctx, name, coracle.M{
			"Image": image, "Cmd": []string{"sh", "-c", script}, "HostConfig": coracle.M{"NetworkMode": "wire"},
		})
		if err != nil {
			log.Fatal(err)
		}
		if _, err = made.Start(ctx); err != nil {
			log.Fatal(err)
		}
		return made
	}
	server := start("server", "mkdir /www; echo found >/www/index.html; exec httpd -f -p 80 -h /www")
	defer server.Remove(ctx, coracle.RemoveOptions{Force: true})
	client := start("client", "until wget -q -O - http://server/; do sleep 0.1; done")
	defer client.Remove(ctx, coracle.RemoveOptions{Force: true})
	if _, err := client.Wait(ctx); err != nil {
		log.Fatal(err)
	}
	logs, err := client.Logs(ctx, coracle.LogsOptions{Stdout: true})
	if err != nil {
		log.Fatal(err)
	}
	defer logs.Close()
	for line, err := range logs.All(ctx) {
		fmt.Println(line.Text(), err)
	}
	// Output:
	// found <nil>
}
