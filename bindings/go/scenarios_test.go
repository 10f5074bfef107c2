package coracle

// The scenarios that all bindings share: bindings/scenarios has the list and says what each step means.

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// long is how long to wait for something that comes.
var long = waiting()

func waiting() time.Duration {
	if seconds, err := time.ParseDuration(os.Getenv("CORACLE_TEST_SECONDS") + "s"); err == nil {
		return seconds
	}
	return 5 * time.Minute
}

// features are those that a scenario or a step may need, and Go has.
var features = []string{}

type step = map[string]any

var scenarios struct {
	Values    map[string]any
	Fragments map[string][]step
	Scenarios []struct {
		Name  string
		Needs []string
		Steps []step
	}
}

// setting is a variable of the environment that bindings/go/tests/run.sh sets.
func setting(t testing.TB, name string) string {
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: bindings/go/tests/run.sh runs these tests", name)
	}
	return value
}

func TestScenarios(t *testing.T) {
	text, err := os.ReadFile(setting(t, "CORACLE_SCENARIOS"))
	if err == nil {
		err = json.Unmarshal(text, &scenarios)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range scenarios.Scenarios {
		if missing := lacking(one.Needs); missing != "" {
			fmt.Printf("not for Go: %s (%s)\n", one.Name, missing)
			continue
		}
		t.Run(one.Name, func(t *testing.T) {
			run := newRun(t)
			defer run.end()
			if err := run.steps(one.Steps); err != nil {
				t.Error(err)
			}
		})
	}
}

func lacking(needs []string) string {
	for _, need := range needs {
		if !slices.Contains(features, need) {
			return need
		}
	}
	return ""
}

// errCaller is an error of the caller's own function.
var errCaller = errors.New("the caller's own error")

// wrong is a result that is not the expected one.
type wrong string

func (w wrong) Error() string { return string(w) }

// run is a scenario on a root of its own.
type run struct {
	t      *testing.T
	dir    string
	lock   *sync.Mutex
	values map[string]any
	things map[string]any
	read   map[string]map[Channel]string
	engine *Engine
}

// scope is a context that another goroutine cancels.
type scope struct {
	ctx    context.Context
	cancel context.CancelFunc
}

// records are messages of the library's log.
type records struct {
	lock sync.Mutex
	all  []any
}

func newRun(t *testing.T) *run {
	// Short, because of sockets below it.
	dir, err := os.MkdirTemp("", "scn-")
	if err != nil {
		t.Fatal(err)
	}
	options := &OpenOptions{RunDir: dir + "/run", Config: M{"durability": "off"}}
	engine, err := Open(dir+"/root", options)
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, dir: dir, lock: &sync.Mutex{}, engine: engine, things: map[string]any{"engine": engine}, read: map[string]map[Channel]string{}}
	r.values = maps.Clone(scenarios.Values)
	if r.values == nil {
		r.values = map[string]any{}
	}
	r.values["dir"], r.values["archive"], r.values["registry"] = dir, setting(t, "CORACLE_TEST_IMAGE"), setting(t, "CORACLE_TEST_REGISTRY")
	file, err := os.Open(setting(t, "CORACLE_TEST_IMAGE"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	names, err := engine.Images.Load(context.Background(), file, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.values["image"] = names[0]
	return r
}

func (r *run) end() {
	ctx := context.Background()
	all, err := r.engine.Containers.List(ctx, ListOptions{All: true})
	if err != nil {
		r.t.Error(err)
	}
	for _, one := range all {
		var about struct{ Id string }
		if err := one.Decode(&about); err != nil {
			r.t.Error(err)
		}
		if err := r.engine.Containers.Get(about.Id).Remove(ctx, RemoveOptions{Force: true, Volumes: true}); err != nil && !errors.Is(err, ErrNotFound) {
			r.t.Error(err)
		}
	}
	plugins, err := r.engine.Plugins.List(ctx, nil)
	if err != nil {
		r.t.Error(err)
	}
	for _, one := range plugins {
		var about struct{ Id string }
		if err := one.Decode(&about); err != nil {
			r.t.Error(err)
		}
		if err := r.engine.Plugins.Remove(ctx, about.Id, true); err != nil {
			r.t.Error(err)
		}
	}
	if _, err := r.engine.Networks.Prune(ctx, nil); err != nil {
		r.t.Error(err)
	}
	if err := r.engine.Networks.Release(ctx); err != nil {
		r.t.Error(err)
	}
	for _, thing := range r.things {
		if thing, ok := thing.(io.Closer); ok {
			thing.Close()
		}
	}
	if err := os.RemoveAll(r.dir); err != nil {
		r.t.Error(err)
	}
}

func (r *run) steps(steps []step) error {
	for _, one := range steps {
		if lacking(texts(one["needs"])) != "" {
			continue
		}
		if name, ok := one["use"].(string); ok {
			if err := r.steps(scenarios.Fragments[name]); err != nil {
				return err
			}
			continue
		}
		end := time.Now().Add(long)
		err := r.once(one)
		for err != nil && one["retry"] == true && time.Now().Before(end) {
			time.Sleep(50 * time.Millisecond)
			err = r.once(one)
		}
		if err != nil {
			text, _ := json.Marshal(one)
			return fmt.Errorf("%.300s: %w", text, err)
		}
	}
	return nil
}

func (r *run) once(one step) error {
	r.lock.Lock()
	given := step{}
	for key, value := range one {
		if key == "steps" {
			given[key] = value
		} else {
			given[key] = r.filled(value)
		}
	}
	r.lock.Unlock()
	ctx := context.Background()
	if name, ok := given["scope"].(string); ok {
		ctx = r.thing(name).(*scope).ctx
	}
	if ms, ok := given["timeout_ms"].(float64); ok && (given["do"] != "events_next" || ms != 0) {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	result, err := r.do(ctx, given)
	var failed wrong
	if errors.As(err, &failed) {
		return err
	}
	if err != nil || given["error"] != nil {
		return expectError(given, err, result)
	}
	plain, err := plainly(result)
	if err != nil {
		return err
	}
	if expected, ok := given["expect"]; ok {
		if err := match(expected, plain, "result"); err != nil {
			return err
		}
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	saves, _ := given["save"].(step)
	for name, path := range saves {
		value := plain
		for _, part := range strings.FieldsFunc(path.(string), func(c rune) bool { return c == '.' }) {
			value = value.(step)[part]
		}
		r.values[name] = value
	}
	return nil
}

func expectError(given step, err error, result any) error {
	wanted, _ := given["error"].(string)
	if err == nil {
		return wrong(fmt.Sprintf("wanted %s, got %.300v", wanted, result))
	}
	var failed *Error
	code := "an error of Go: " + err.Error()
	switch {
	case errors.Is(err, errCaller):
		code = "CALLER"
	case errors.As(err, &failed):
		code = failed.Code.String()
		if !errors.Is(err, failed.Code) {
			return wrong("errors.Is does not know the code")
		}
		if (code == "CANCELLED") != errors.Is(err, context.Canceled) || (code == "TIMEOUT") != errors.Is(err, context.DeadlineExceeded) {
			return wrong(fmt.Sprintf("the context's error is not behind %s: %v", code, err))
		}
	}
	if code != wanted {
		return wrong(fmt.Sprintf("wanted %q, got %s: %v", wanted, code, err))
	}
	if status, ok := given["status"].(float64); ok && int(status) != failed.Status {
		return wrong(fmt.Sprintf("wanted status %v, got %d", status, failed.Status))
	}
	if detail, ok := given["detail"].(step); ok {
		if field, ok := detail["field"]; ok && field != failed.Field {
			return wrong(fmt.Sprintf("wanted field %v, got %q", field, failed.Field))
		}
		if err := match(detail, failed.Detail, "detail"); err != nil {
			return err
		}
	}
	if has, ok := given["has"].(string); ok && !strings.Contains(err.Error(), has) {
		return wrong(fmt.Sprintf("wanted %q in %q", has, err))
	}
	return nil
}

// plainly is a result in the forms of JSON.
func plainly(result any) (any, error) {
	text, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	var plain any
	return plain, json.Unmarshal(text, &plain)
}

func match(expected, got any, where string) error {
	bad := func() error { return wrong(fmt.Sprintf("%s: wanted %v, got %.600v", where, expected, got)) }
	switch expected := expected.(type) {
	case step:
		for key, value := range expected {
			if strings.HasPrefix(key, "$") {
				if !matcher(key, value, got) {
					return bad()
				}
				continue
			}
			object, ok := got.(step)
			if !ok {
				return bad()
			}
			if err := match(value, object[key], where+"."+key); err != nil {
				return err
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(expected) {
			return bad()
		}
		for i := range expected {
			if err := match(expected[i], list[i], fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	default:
		if !reflect.DeepEqual(expected, got) {
			return bad()
		}
	}
	return nil
}

func length(value any) int {
	switch value := value.(type) {
	case []any:
		return len(value)
	case step:
		return len(value)
	case string:
		return len(value)
	}
	return 0
}

func matcher(key string, value, got any) bool {
	number, _ := got.(float64)
	switch key {
	case "$has":
		text, ok := got.(string)
		return ok && strings.Contains(text, value.(string))
	case "$above":
		return number > value.(float64)
	case "$len":
		return length(got) == int(value.(float64))
	case "$len_above":
		return length(got) > int(value.(float64))
	case "$not":
		return got != nil && !reflect.DeepEqual(value, got)
	case "$one_of":
		return slices.ContainsFunc(value.([]any), func(one any) bool { return reflect.DeepEqual(one, got) })
	case "$contains":
		list, _ := got.([]any)
		return slices.ContainsFunc(list, func(one any) bool { return match(value, one, "") == nil })
	}
	panic("no matcher " + key)
}

// filled is a value with the values of names such as $id; $$ is a dollar sign.
func (r *run) filled(value any) any {
	switch value := value.(type) {
	case step:
		made := step{}
		for key, one := range value {
			made[key] = r.filled(one)
		}
		return made
	case []any:
		made := make([]any, len(value))
		for i, one := range value {
			made[i] = r.filled(one)
		}
		return made
	case string:
		if found, ok := r.values[strings.TrimPrefix(value, "$")]; ok && strings.HasPrefix(value, "$") {
			return found
		}
		value = strings.ReplaceAll(value, "$$", "\x01")
		names := slices.SortedFunc(maps.Keys(r.values), func(a, b string) int { return len(b) - len(a) })
		for _, name := range names {
			if text, ok := r.values[name].(string); ok {
				value = strings.ReplaceAll(value, "$"+name, text)
			}
		}
		return strings.ReplaceAll(value, "\x01", "$")
	}
	return value
}

func texts(value any) []string {
	list, _ := value.([]any)
	made := []string{}
	for _, one := range list {
		made = append(made, one.(string))
	}
	return made
}

func filters(value any) map[string][]string {
	object, _ := value.(step)
	made := map[string][]string{}
	for key, list := range object {
		made[key] = texts(list)
	}
	return made
}

// into reads the members of a document into options of this package.
func into[T any](value any) T {
	var made T
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &made)
	}
	if err != nil {
		panic(err)
	}
	return made
}

func (r *run) thing(name string) any {
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.things[name]
}

func (r *run) keep(given step, thing any) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.things[text_(given, "as")] = thing
}

func text_(given step, name string) string {
	value, _ := given[name].(string)
	return value
}

func millis(given step, name string) time.Duration {
	value, _ := given[name].(float64)
	return time.Duration(value) * time.Millisecond
}

func repeated(value any) []byte {
	if object, ok := value.(step); ok {
		return bytes.Repeat([]byte(object["repeat"].(string)), int(object["times"].(float64)))
	}
	text, _ := value.(string)
	return []byte(text)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errCaller }

// source is the archive of a step, and the function that closes it.
func (r *run) source(given step) (io.Reader, func(), error) {
	nothing := func() {}
	if given["broken"] == true {
		return broken{}, nothing, nil
	}
	if path := text_(given, "path"); path != "" && given["do"] == "image_load" {
		file, err := os.Open(path)
		return file, func() { file.Close() }, err
	}
	if value, ok := given["bytes"]; ok {
		return bytes.NewReader(repeated(value)), nothing, nil
	}
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for name, content := range given["files"].(step) {
		text := []byte(content.(string))
		if err := writer.WriteHeader(&tar.Header{Name: name, Size: int64(len(text)), Mode: 0o644}); err != nil {
			return nil, nothing, err
		}
		if _, err := writer.Write(text); err != nil {
			return nil, nothing, err
		}
	}
	return &out, nothing, writer.Close()
}

// filesOf reads the small files of a tar.
func filesOf(body io.ReadCloser) (step, error) {
	defer body.Close()
	found := step{}
	reader := tar.NewReader(body)
	for {
		head, err := reader.Next()
		if err == io.EOF {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		if head.Typeflag == tar.TypeReg && head.Size < 4096 {
			text, err := io.ReadAll(reader)
			if err != nil {
				return nil, err
			}
			found[head.Name] = string(text)
		}
	}
}

// progress is the progress function of a step.
func (r *run) progress(given step) ProgressFunc {
	if given["refuse"] == true {
		return func(Progress) error { return errCaller }
	}
	name := text_(given, "progress")
	if name == "" {
		return nil
	}
	list := []any{}
	r.values[name] = list
	return func(one Progress) error {
		var record any
		if err := one.Record.Decode(&record); err != nil {
			return err
		}
		list = append(list, record)
		r.values[name] = list
		return nil
	}
}

func body(answer []byte) any {
	var made any
	if json.Unmarshal(answer, &made) == nil {
		return made
	}
	return strings.TrimSpace(string(answer))
}

// requested is a request over a connection.
func requested(transport *http.Transport, target string) (any, error) {
	defer transport.CloseIdleConnections()
	answer, err := (&http.Client{Transport: transport}).Get("http://coracle" + target)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return step{"status": answer.StatusCode, "body": body(text)}, err
}

func pollable(fd uintptr, wait time.Duration) bool {
	var set syscall.FdSet
	set.Bits[fd/64] |= 1 << (fd % 64)
	limit := syscall.NsecToTimeval(int64(wait))
	for {
		count, err := syscall.Select(int(fd)+1, &set, nil, nil, &limit)
		if err != syscall.EINTR {
			return count == 1
		}
	}
}

func number(given step, name string) uint16 {
	value, _ := given[name].(float64)
	return uint16(value)
}

func channelOf(name string) Channel {
	return Channel(slices.Index([]string{"stdin", "stdout", "stderr"}, name))
}
