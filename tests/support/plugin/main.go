// A plugin of each kind for the tests, on docker's own helpers for plugins.
//
// plugin NAME KIND...: serves at /run/docker/plugins/NAME.sock. The kinds are volume, authz and log. Volumes are file systems of the
// plugin's own below /mnt/volumes, or, with the variable PLAIN=1, plain directories there. The requests of user "mallory" are denied. The
// messages of logs are lines of /state/log. A volume with the option link=PATH is a link to PATH; the option
// socket=PATH puts a link to PATH in the place of the plugin's socket. The kind deaf listens, but accepts nobody,
// and its queue is full. The kind bare is an authz plugin that does not remove an old socket before it listens (docker's helpers remove
// one). With the variable DIE=1 the plugin ends when a volume "die" is made for the first time.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/fifo"
	"github.com/docker/docker/api/types/plugins/logdriver"
	"github.com/docker/go-plugins-helpers/authorization"
	"github.com/docker/go-plugins-helpers/sdk"
	"github.com/docker/go-plugins-helpers/volume"
	"golang.org/x/net/context"
)

const top = "/mnt/volumes"

type volumes struct {
	sync.Mutex
	mounted map[string]int
}

func place(name string) string { return filepath.Join(top, name) }

func (v *volumes) Create(r *volume.CreateRequest) error {
	if r.Name == "die" && os.Getenv("DIE") == "1" {
		if _, err := os.Stat("/died"); err != nil {
			os.WriteFile("/died", nil, 0o600)
			os.Exit(3)
		}
	}
	if to := r.Options["socket"]; to != "" {
		socket := "/run/docker/plugins/toy.sock"
		if err := os.Remove(socket); err != nil {
			return err
		}
		return os.Symlink(to, socket)
	}
	if to := r.Options["link"]; to != "" {
		return os.Symlink(to, place(r.Name))
	}
	return os.MkdirAll(place(r.Name), 0o755)
}

func (v *volumes) List() (*volume.ListResponse, error) {
	entries, err := os.ReadDir(top)
	if err != nil {
		return nil, err
	}
	all := []*volume.Volume{}
	for _, entry := range entries {
		all = append(all, &volume.Volume{Name: entry.Name(), Mountpoint: place(entry.Name())})
	}
	return &volume.ListResponse{Volumes: all}, nil
}

func (v *volumes) Get(r *volume.GetRequest) (*volume.GetResponse, error) {
	if _, err := os.Stat(place(r.Name)); err != nil {
		return nil, fmt.Errorf("volume %s not found", r.Name)
	}
	return &volume.GetResponse{Volume: &volume.Volume{Name: r.Name, Mountpoint: place(r.Name)}}, nil
}

func (v *volumes) Remove(r *volume.RemoveRequest) error { return os.RemoveAll(place(r.Name)) }

func (v *volumes) Path(r *volume.PathRequest) (*volume.PathResponse, error) {
	return &volume.PathResponse{Mountpoint: place(r.Name)}, nil
}

func (v *volumes) Mount(r *volume.MountRequest) (*volume.MountResponse, error) {
	v.Lock()
	defer v.Unlock()
	if v.mounted[r.Name] == 0 && os.Getenv("PLAIN") != "1" {
		if err := syscall.Mount("plugin", place(r.Name), "tmpfs", 0, ""); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(place(r.Name), "made"), []byte(r.ID+"\n"), 0o644); err != nil {
			return nil, err
		}
	}
	v.mounted[r.Name]++
	return &volume.MountResponse{Mountpoint: place(r.Name)}, nil
}

func (v *volumes) Unmount(r *volume.UnmountRequest) error {
	v.Lock()
	defer v.Unlock()
	if v.mounted[r.Name]--; v.mounted[r.Name] > 0 || os.Getenv("PLAIN") == "1" {
		return nil
	}
	v.mounted[r.Name] = 0
	return syscall.Unmount(place(r.Name), 0)
}

func (v *volumes) Capabilities() *volume.CapabilitiesResponse {
	return &volume.CapabilitiesResponse{Capabilities: volume.Capability{Scope: "local"}}
}

type guard struct{}

func (guard) AuthZReq(r authorization.Request) authorization.Response {
	if r.User == "mallory" {
		return authorization.Response{Allow: false, Msg: "not mallory"}
	}
	return authorization.Response{Allow: true}
}

func (guard) AuthZRes(authorization.Request) authorization.Response {
	return authorization.Response{Allow: true}
}

type logs struct {
	sync.Mutex
	streams map[string]io.ReadCloser
}

func (l *logs) start(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		File string
		Info struct{ ContainerName string }
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	stream, err := fifo.OpenFifo(context.Background(), asked.File, syscall.O_RDONLY, 0o700)
	if err != nil {
		fmt.Fprintf(w, `{"Err": %q}`, err.Error())
		return
	}
	l.Lock()
	l.streams[asked.File] = stream
	l.Unlock()
	go l.read(stream, asked.Info.ContainerName)
	fmt.Fprint(w, `{"Err": ""}`)
}

func (l *logs) read(stream io.Reader, name string) {
	decoder := logdriver.NewLogEntryDecoder(stream)
	for {
		var entry logdriver.LogEntry
		if err := decoder.Decode(&entry); err != nil {
			return
		}
		l.Lock()
		file, err := os.OpenFile("/state/log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			fmt.Fprintf(file, "%s %s %s\n", name, entry.Source, entry.Line)
			file.Close()
		}
		l.Unlock()
	}
}

func (l *logs) stop(w http.ResponseWriter, r *http.Request) {
	var asked struct{ File string }
	json.NewDecoder(r.Body).Decode(&asked)
	l.Lock()
	if stream, ok := l.streams[asked.File]; ok {
		stream.Close()
		delete(l.streams, asked.File)
	}
	l.Unlock()
	fmt.Fprint(w, `{"Err": ""}`)
}

func deaf(name string) error {
	socket := "/run/docker/plugins/" + name + ".sock"
	listener, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	early := &syscall.SockaddrUnix{Name: socket + ".early"}
	if err := syscall.Bind(listener, early); err != nil {
		return err
	}
	if err := syscall.Listen(listener, 0); err != nil {
		return err
	}
	for {
		client, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		if syscall.Connect(client, early) != nil {
			break
		}
	}
	if err := os.Rename(early.Name, socket); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}

func serve(name, kind string) error {
	switch kind {
	case "volume":
		handler := volume.NewHandler(&volumes{mounted: map[string]int{}})
		return handler.ServeUnix(name, 0)
	case "authz":
		return authorization.NewHandler(guard{}).ServeUnix(name, 0)
	case "bare":
		listener, err := net.Listen("unix", "/run/docker/plugins/"+name+".sock")
		if err != nil {
			return err
		}
		return authorization.NewHandler(guard{}).Serve(listener)
	case "deaf":
		return deaf(name)
	case "log":
		handler := sdk.NewHandler(`{"Implements": ["LogDriver"]}`)
		all := &logs{streams: map[string]io.ReadCloser{}}
		handler.HandleFunc("/LogDriver.StartLogging", all.start)
		handler.HandleFunc("/LogDriver.StopLogging", all.stop)
		return handler.ServeUnix(name, 0)
	}
	return fmt.Errorf("no kind %q", kind)
}

func main() {
	fmt.Println("DEBUG is", os.Getenv("DEBUG"), "arguments", os.Args[3:])
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
