// The program coracle-swarm makes an engine root a member of a swarm. It answers the swarm's part of the HTTP API at a socket in the
// root's run directory, to which the engine forwards; it runs tasks as containers of the root.
//
// Containers do not need the program: it can end, and be started again, at any time.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"coracle.dev/swarm/api"
	"coracle.dev/swarm/engine"
	"coracle.dev/swarm/executor"
	"coracle.dev/swarm/node"
	"github.com/moby/swarmkit/v2/log"
	"github.com/sirupsen/logrus"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// segment is the size of a file of raft's log; the usual one takes 128 MB of disk from the first moment.
const segment = 8 << 20

// lookers is the time within which everybody who looks at the lock has let it go.
const lookers = time.Second

// exitTaken is the exit code of a program that found another one at work for the same root.
const exitTaken = 3

// options are those of the command line.
type options struct {
	root, runDir, socket, config string
	idle                         time.Duration
	isDebug                      bool
}

func main() {
	wal.SegmentSizeBytes = segment
	var given options
	flag.StringVar(&given.root, "root", "", "the engine's root `directory`")
	flag.StringVar(&given.runDir, "run-dir", "", "the root's run `directory`")
	flag.StringVar(&given.socket, "engine", "", "the `socket` of an engine that serves its API; empty: libcoracle in this process")
	flag.StringVar(&given.config, "config", "", "a `file` with the options of the root, a JSON object; empty: the options of the starter, or the defaults")
	flag.DurationVar(&given.idle, "idle", 0, "end after this time outside of a swarm; 0: never")
	flag.BoolVar(&given.isDebug, "debug", false, "log everything")
	flag.Parse()
	leaveStarter()
	if given.root == "" || given.runDir == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "coracle-swarm: --root and --run-dir are needed, and no other words")
		os.Exit(2)
	}
	logrus.SetLevel(logrus.WarnLevel)
	if given.isDebug {
		logrus.SetLevel(logrus.DebugLevel)
	}
	if err := given.absolute(); err != nil {
		fmt.Fprintln(os.Stderr, "coracle-swarm:", err)
		os.Exit(2)
	}
	if err := run(given); err != nil {
		fmt.Fprintln(os.Stderr, "coracle-swarm:", err)
		if errors.Is(err, errTaken) {
			os.Exit(exitTaken)
		}
		os.Exit(1)
	}
}

var errTaken = errors.New("another coracle-swarm works for this root")

// absolute makes the paths independent of the working directory, which becomes the program's own: the path of a socket may have 107
// bytes alone.
func (o *options) absolute() error {
	for _, path := range []*string{&o.root, &o.runDir, &o.socket, &o.config} {
		if *path == "" {
			continue
		}
		whole, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = whole
	}
	return nil
}

// configVariable has the options of the root, if the library started the program.
const configVariable = "CORACLE_SWARM_CONFIG"

// configuration is the JSON object with the root's options; nil: the defaults.
func (o *options) configuration() (json.RawMessage, error) {
	text, isGiven := os.LookupEnv(configVariable)
	if err := os.Unsetenv(configVariable); err != nil {
		return nil, err
	}
	if o.config != "" {
		read, err := os.ReadFile(o.config)
		return read, err
	}
	if !isGiven {
		return nil, nil
	}
	return json.RawMessage(text), nil
}

func run(given options) error {
	dir := filepath.Join(given.runDir, "swarm")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	lock, err := hold("lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	to, close, err := reach(given)
	if err != nil {
		return err
	}
	defer close()
	tasks := executor.New(ctx, to, node.NoPlugins{})
	host := node.Host{Executor: tasks, Networks: tasks.Networks, Forget: tasks.Forget, Sweep: tasks.Sweep}
	member, err := node.Open(node.Places{State: filepath.Join(given.root, "swarm"), Run: "."}, host)
	if err != nil {
		return err
	}
	defer member.Close()
	if err := member.Resume(ctx); err != nil {
		return err
	}
	return serve(ctx, stop, given, member, to, "api.sock")
}

// hold takes the lock by which one program works for a root at a time.
func hold(path string) (*os.File, error) {
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// A library that looks whether the program runs has the lock for a moment.
	for until := time.Now().Add(lookers); ; time.Sleep(lookers / 50) {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return lock, note(lock)
		}
		if time.Now().After(until) {
			break
		}
	}
	lock.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errTaken
	}
	return nil, err
}

// note writes the program's own number into its lock, for people.
func note(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintln(lock, os.Getpid())
	return err
}

func reach(given options) (*engine.Engine, func(), error) {
	if given.socket != "" {
		return engine.Socket(given.socket), func() {}, nil
	}
	config, err := given.configuration()
	if err != nil {
		return nil, nil, err
	}
	return engine.Library(given.root, given.runDir, config)
}

// serve answers requests until the program is told to end, or is of no use.
func serve(ctx context.Context, stop func(), given options, member *node.Member, to *engine.Engine, path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	old := syscall.Umask(0o177)
	listener, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return err
	}
	idle := newIdle(given.idle, member, stop)
	server := &http.Server{Handler: idle.counted(api.New(member, to, idle.look)), ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		log.L.WithError(err).Warn("requests are under way at the end")
	}
	return nil
}
