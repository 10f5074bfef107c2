package coracle

// Each step of the scenarios by this package's own functions.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

func changed(value bool, err error) (any, error)  { return step{"changed": value}, err }
func coded(code int, err error) (any, error)      { return step{"code": code}, err }
func nothing(err error) (any, error)              { return nil, err }
func idOf(id string, err error) (any, error)      { return step{"id": id}, err }
func some[T any](value T, err error) (any, error) { return value, err }

func (r *run) do(ctx context.Context, given step) (any, error) {
	e, _ := r.thing("engine").(*Engine)
	if on := text_(given, "on"); on != "" {
		e, _ = r.thing(on).(*Engine)
	}
	name := text_(given, "do")
	for _, group := range []func(context.Context, *Engine, string, step) (any, error, bool){r.own, r.library, r.root, r.container, r.life, r.session, r.stream, r.image, r.net, r.plugin, r.http} {
		if result, err, known := group(ctx, e, name, given); known {
			return result, err
		}
	}
	return nil, wrong("no step " + name)
}

// known marks the answer of a step that a group has.
func known(result any, err error) (any, error, bool) { return result, err, true }

func (r *run) own(ctx context.Context, _ *Engine, name string, given step) (any, error, bool) {
	switch name {
	case "scope":
		ctx, cancel := context.WithCancel(context.Background())
		r.keep(given, &scope{ctx, cancel})
	case "cancel":
		r.thing(text_(given, "of")).(*scope).cancel()
	case "sleep":
		time.Sleep(millis(given, "ms"))
	case "value":
		return known(given["value"], nil)
	case "file_exists":
		_, err := os.Stat(text_(given, "path"))
		return known(err == nil, nil)
	case "spawn":
		done := make(chan error, 1)
		go func() { done <- r.steps(stepsOf(given["steps"])) }()
		r.keep(given, done)
	case "join":
		select {
		case err := <-r.thing(text_(given, "of")).(chan error):
			return known(nil, err)
		case <-time.After(long):
			return known(nil, wrong("the goroutine does not end"))
		}
	case "parallel":
		return known(nil, r.parallel(int(given["times"].(float64)), stepsOf(given["steps"])))
	default:
		return nil, nil, false
	}
	return known(nil, nil)
}

func stepsOf(value any) []step {
	var made []step
	for _, one := range value.([]any) {
		made = append(made, one.(step))
	}
	return made
}

func (r *run) parallel(times int, steps []step) error {
	failed := make([]error, times)
	var jobs sync.WaitGroup
	for i := range times {
		mine := *r
		mine.values, mine.lock = maps.Clone(r.values), &sync.Mutex{}
		jobs.Add(1)
		go func() {
			defer jobs.Done()
			failed[i] = mine.steps(steps)
		}()
	}
	jobs.Wait()
	return errors.Join(failed...)
}

func (r *run) library(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	switch name {
	case "version":
		return known(step{"text": Version(), "number": VersionNumber()}, nil)
	case "build_info":
		return known(BuildInfo(), nil)
	case "has_feature":
		return known(HasFeature(text_(given, "name")), nil)
	case "status_name":
		return known(Code(given["code"].(float64)).String(), nil)
	case "set_log":
		kept := &records{}
		r.keep(given, kept)
		return known(nothing(SetLog(Level(given["level"].(float64)), func(level Level, target, message string) {
			kept.lock.Lock()
			defer kept.lock.Unlock()
			kept.all = append(kept.all, []any{level, target, message})
		})))
	case "unset_log":
		return known(nothing(SetLog(LevelInfo, nil)))
	case "log_records":
		kept := r.thing(text_(given, "of")).(*records)
		kept.lock.Lock()
		defer kept.lock.Unlock()
		return known(slices.Clone(kept.all), nil)
	case "host_report":
		return known(some(HostReport(text_(given, "root"), nil)))
	case "open":
		flags := texts(given["flags"])
		options := &OpenOptions{RunDir: text_(given, "run_dir"), Config: given["config"]}
		options.Existing, options.Lenient, options.Ephemeral = slices.Contains(flags, "existing"), slices.Contains(flags, "lenient"), slices.Contains(flags, "ephemeral")
		made, err := Open(text_(given, "root"), options)
		if err == nil {
			r.keep(given, made)
		}
		return known(nil, err)
	case "ref":
		made, err := e.Again()
		if err == nil {
			r.keep(given, made)
		}
		return known(nil, err)
	case "close":
		return known(nil, e.Close())
	}
	return nil, nil, false
}

func (r *run) root(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	query, _ := given["query"].(step)
	switch name {
	case "engine_info":
		return known(some(e.Info(ctx)))
	case "engine_version":
		return known(some(e.Version()))
	case "engine_metrics":
		return known(some(e.Metrics()))
	case "engine_disk_usage":
		return known(some(e.DiskUsage(ctx, texts(query["type"])...)))
	case "engine_reload":
		return known(nil, e.Reload(texts(given["labels"]), into[map[string]string](given["settings"])))
	case "root_verify":
		return known(some(e.Verify(ctx, VerifyOptions{Repair: query["repair"] == true, Progress: r.progress(given)})))
	case "root_leftovers":
		return known(some(e.Leftovers()))
	case "root_sweep":
		return known(some(e.Sweep(ctx)))
	case "root_copy":
		return known(some(e.CopyRoot(ctx, text_(given, "dir"), CopyOptions{Pause: query["pause"] == true})))
	case "root_import_docker":
		return known(some(e.ImportDocker(ctx, into[ImportOptions](query))))
	case "lease_hold":
		made, err := e.Lease(text_(given, "name"))
		if err == nil {
			r.keep(given, made)
		}
		return known(nil, err)
	case "lease_free":
		return known(nil, r.thing(text_(given, "of")).(io.Closer).Close())
	}
	return nil, nil, false
}

func stopOptions(how step) StopOptions {
	options := StopOptions{Signal: text_(how, "signal")}
	if _, ok := how["grace_ms"]; ok {
		grace := millis(how, "grace_ms")
		options.Grace = &grace
	}
	return options
}

func (r *run) container(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	c := e.Containers.Get(text_(given, "id"))
	switch name {
	case "container_create":
		made, err := e.Containers.Create(ctx, text_(given, "name"), given["body"])
		if err != nil {
			return known(nil, err)
		}
		return known(step{"id": made.ID, "Warnings": made.Warnings}, nil)
	case "container_list":
		return known(some(e.Containers.List(ctx, into[ListOptions](given["query"]))))
	case "container_prune":
		return known(some(e.Containers.Prune(ctx, filters(given["filters"]))))
	case "container_inspect":
		if given["size"] == true {
			return known(some(c.InspectSize(ctx)))
		}
		return known(some(c.Inspect(ctx)))
	case "container_explain":
		return known(some(c.Explain(ctx)))
	case "container_top":
		return known(some(c.Top(ctx, text_(given, "ps_args"))))
	case "container_stats":
		return known(samples(ctx, c, given))
	case "container_rename":
		return known(nil, c.Rename(ctx, text_(given, "name")))
	case "container_update":
		return known(some(c.Update(ctx, given["body"])))
	case "container_stat_path":
		return known(some(c.StatPath(ctx, text_(given, "path"))))
	case "container_get_archive":
		body, stat, err := c.GetArchive(ctx, text_(given, "path"))
		if err != nil {
			return known(nil, err)
		}
		files, err := filesOf(body)
		return known(step{"files": files, "stat": stat}, err)
	case "container_put_archive":
		source, end, err := r.source(given)
		if err != nil {
			return known(nil, err)
		}
		defer end()
		return known(nil, c.PutArchive(ctx, text_(given, "path"), source, PutOptions{}))
	case "container_export":
		body, err := c.Export(ctx)
		if err != nil {
			return known(nil, err)
		}
		files, err := filesOf(body)
		return known(step{"files": files}, err)
	case "container_changes":
		return known(some(c.Changes(ctx)))
	case "container_commit":
		return known(idOf(c.Commit(ctx, into[CommitOptions](given["query"]))))
	}
	return nil, nil, false
}

func samples(ctx context.Context, c *Container, given step) (any, error) {
	count, several := given["count"].(float64)
	if !several {
		one, err := c.Stats(ctx)
		return []Document{one}, err
	}
	var all []Document
	for one, err := range c.Samples(ctx) {
		if err != nil {
			return nil, err
		}
		if all = append(all, one); len(all) == int(count) {
			break
		}
	}
	return all, nil
}

func (r *run) life(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	c := e.Containers.Get(text_(given, "id"))
	switch name {
	case "container_start":
		if given["attach"] != true {
			return known(changed(c.Start(ctx)))
		}
		made, err := c.StartAttached(ctx, IO{Rows: number(given, "rows"), Cols: number(given, "cols")})
		if err == nil {
			r.keep(given, made)
		}
		return known(step{"changed": true}, err)
	case "container_attach":
		made, err := c.Attach(ctx, into[AttachOptions](given["query"]))
		if err == nil {
			r.keep(given, made)
		}
		return known(nil, err)
	case "container_stop":
		return known(changed(c.Stop(ctx, millis(given, "grace_ms"))))
	case "container_stop_with":
		return known(changed(c.StopWith(ctx, stopOptions(given["how"].(step)))))
	case "container_restart":
		return known(nil, c.Restart(ctx, millis(given, "grace_ms")))
	case "container_restart_with":
		return known(nil, c.RestartWith(ctx, stopOptions(given["how"].(step))))
	case "container_kill":
		return known(nil, c.Kill(ctx, text_(given, "signal")))
	case "container_pause":
		return known(nil, c.Pause(ctx))
	case "container_unpause":
		return known(nil, c.Unpause(ctx))
	case "container_wait":
		if condition := text_(given, "condition"); condition != "" {
			return known(coded(c.WaitFor(ctx, Condition(condition))))
		}
		return known(coded(c.Wait(ctx)))
	case "begin_wait":
		made, err := c.BeginWait(ctx, Condition(text_(given, "condition")))
		if err != nil {
			return known(nil, err)
		}
		r.keep(given, made)
		if given["error"] != nil {
			// An error of the work comes with its answer.
			return known(coded(made.Wait(ctx)))
		}
		return known(nil, nil)
	case "pending_result":
		return known(coded(r.thing(text_(given, "of")).(*Pending).Wait(ctx)))
	case "container_pidfd":
		file, err := c.Pidfd()
		if err != nil {
			return known(nil, err)
		}
		ended := pollable(file.Fd(), 0)
		if text_(given, "as") == "" {
			return known(step{"ended": ended}, file.Close())
		}
		r.keep(given, file)
		return known(step{"ended": ended}, nil)
	case "pidfd_wait":
		if !pollable(r.thing(text_(given, "of")).(*os.File).Fd(), long) {
			return known(nil, wrong("the descriptor does not become readable"))
		}
		return known(nil, nil)
	case "container_remove":
		return known(nil, c.Remove(ctx, RemoveOptions{Force: given["force"] == true, Volumes: given["volumes"] == true}))
	}
	return nil, nil, false
}

func (r *run) session(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	s, _ := r.thing(text_(given, "of")).(*Session)
	x := e.Containers.Exec(text_(given, "id"))
	switch name {
	case "session_read":
		return known(r.readUntil(ctx, s, given))
	case "session_write":
		count, err := s.Write(ctx, []byte(text_(given, "data")))
		return known(step{"count": count}, err)
	case "session_close_stdin":
		return known(nil, s.CloseStdin())
	case "session_streams":
		var stdout, stderr bytes.Buffer
		err := s.Communicate(ctx, bytes.NewReader(repeated(given["input"])), &stdout, &stderr)
		return known(step{"stdout": stdout.String(), "stderr": stderr.String()}, err)
	case "session_fd":
		return known(s.Has(channelOf(text_(given, "channel"))), nil)
	case "session_resize":
		return known(nil, s.Resize(number(given, "rows"), number(given, "cols")))
	case "session_wait":
		return known(coded(s.Wait(ctx)))
	case "session_free":
		return known(nil, s.Close())
	case "exec_create":
		made, err := e.Containers.Get(text_(given, "id")).Exec(ctx, given["body"])
		if err != nil {
			return known(nil, err)
		}
		return known(step{"id": made.ID}, nil)
	case "exec_start":
		if given["attach"] != true {
			return known(nil, x.Start(ctx))
		}
		made, err := x.StartAttached(ctx, IO{})
		if err == nil {
			r.keep(given, made)
		}
		return known(nil, err)
	case "exec_wait":
		return known(coded(x.Wait(ctx)))
	case "exec_inspect":
		return known(some(x.Inspect(ctx)))
	}
	return nil, nil, false
}

func (r *run) readUntil(ctx context.Context, s *Session, given step) (any, error) {
	r.lock.Lock()
	seen, ok := r.read[text_(given, "of")]
	if !ok {
		seen = map[Channel]string{}
		r.read[text_(given, "of")] = seen
	}
	r.lock.Unlock()
	until, channel := text_(given, "until"), text_(given, "channel")
	there := func() bool {
		for one, text := range seen {
			if until != "" && (channel == "" || channelOf(channel) == one) && strings.Contains(text, until) {
				return true
			}
		}
		return false
	}
	if !there() {
		for piece, err := range s.Output(ctx) {
			if err != nil {
				return nil, err
			}
			seen[piece.Channel] += string(piece.Data)
			if there() {
				break
			}
		}
	}
	if until != "" && !there() {
		return nil, wrong(fmt.Sprintf("the output ended without %q: %v", until, seen))
	}
	return step{"stdout": seen[Stdout], "stderr": seen[Stderr]}, nil
}

// line is a line of a log as the scenarios have it.
func line(one LogLine) step { return step{"channel": one.Channel.String(), "text": one.Text()} }

func (r *run) stream(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	thing := r.thing(text_(given, "of"))
	switch name {
	case "container_logs":
		logs, err := e.Containers.Get(text_(given, "id")).Logs(ctx, into[LogsOptions](given["query"]))
		if err != nil {
			return known(nil, err)
		}
		defer logs.Close()
		all := []step{}
		for one, err := range logs.All(ctx) {
			if err != nil {
				return known(nil, err)
			}
			all = append(all, line(one))
		}
		return known(all, nil)
	case "logs_open":
		logs, err := e.Containers.Get(text_(given, "id")).Logs(ctx, into[LogsOptions](given["query"]))
		if err == nil {
			r.keep(given, logs)
		}
		return known(nil, err)
	case "logs_next":
		one, err := thing.(*Logs).Next(ctx)
		return known(line(one), err)
	case "stream_fd":
		_, err := thing.(*Logs).Fd()
		return known(err == nil, err)
	case "stream_lost":
		return known(some(thing.(*Logs).Lost()))
	case "stream_free", "events_free":
		return known(nil, thing.(io.Closer).Close())
	case "events_open":
		query, _ := given["query"].(step)
		options := EventsOptions{Filters: filters(query["filters"])}
		if after, ok := query["after"].(float64); ok {
			options.After = uint64(after)
		}
		if query["until"] == "2" {
			options.Since, options.Until = time.Unix(1, 0), time.Unix(2, 0)
		}
		made, err := e.Events(ctx, options)
		if err == nil {
			r.keep(given, made)
		}
		return known(nil, err)
	case "events_fd":
		// The poller waits for it.
		return known(thing.(*Events).poll != nil, nil)
	case "events_next":
		return known(r.nextEvent(ctx, thing.(*Events), given))
	case "events_until":
		actions := []string{}
		for one, err := range thing.(*Events).All(ctx) {
			if err != nil {
				return known(nil, err)
			}
			if actions = append(actions, one.Action); one.Action == text_(given, "action") {
				return known(actions, nil)
			}
		}
		return known(nil, wrong(fmt.Sprintf("the events end at %v", actions)))
	}
	return nil, nil, false
}

func (r *run) nextEvent(ctx context.Context, events *Events, given step) (any, error) {
	if _, ok := given["timeout_ms"]; ok {
		one, there, err := events.Poll()
		if err == nil && !there {
			return step{"again": true}, nil
		}
		return one.Document, err
	}
	one, err := events.Next(ctx)
	if isEnd(err) {
		return step{"done": true}, nil
	}
	return one.Document, err
}

func (r *run) image(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	images, ref, query := e.Images, text_(given, "ref"), given["query"]
	switch name {
	case "image_list":
		return known(some(images.List(ctx, into[ImageListOptions](query))))
	case "image_inspect":
		return known(some(images.Inspect(ctx, ref)))
	case "image_history":
		return known(some(images.History(ctx, ref)))
	case "image_tag":
		return known(nil, images.Tag(ctx, ref, text_(given, "new_ref")))
	case "image_remove":
		return known(some(images.Remove(ctx, ref, ImageRemoveOptions{given["force"] == true, given["no_prune"] == true})))
	case "image_prune":
		return known(some(images.Prune(ctx, filters(given["filters"]))))
	case "build_prune":
		return known(some(images.PruneCaches(ctx, filters(given["filters"]))))
	case "image_save":
		body, err := images.Save(ctx, text_(given, "layout"), texts(given["names"])...)
		if err != nil {
			return known(nil, err)
		}
		defer body.Close()
		file, err := os.Create(text_(given, "file"))
		if err != nil {
			return known(nil, err)
		}
		count, err := io.Copy(file, body)
		return known(step{"bytes": count}, errors.Join(err, file.Close()))
	case "image_pull":
		return known(idOf(images.PullPlatform(ctx, ref, text_(given, "platform"), nil, r.progress(given))))
	case "image_push":
		return known(some(images.Push(ctx, ref, nil, r.progress(given))))
	case "image_search":
		return known(some(images.Search(ctx, into[SearchOptions](query))))
	case "registry_inspect":
		return known(some(images.InspectRemote(ctx, ref, nil)))
	case "registry_auth":
		return known(some(images.CheckLogin(ctx, given["auth"])))
	case "image_load", "image_import", "image_build":
		source, end, err := r.source(given)
		if err != nil {
			return known(nil, err)
		}
		defer end()
		switch name {
		case "image_load":
			return known(some(images.Load(ctx, source, r.progress(given))))
		case "image_import":
			return known(idOf(images.Import(ctx, source, into[ImageImportOptions](query))))
		}
		return known(idOf(images.Build(ctx, source, query, r.progress(given))))
	case "image_build_dir":
		dir, err := os.MkdirTemp(r.dir, "context-")
		for file, content := range given["files"].(step) {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, file), []byte(content.(string)), 0o644))
		}
		if err != nil {
			return known(nil, err)
		}
		return known(idOf(images.BuildDir(ctx, dir, query, r.progress(given))))
	}
	return nil, nil, false
}

func (r *run) net(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	networks, volumes, id := e.Networks, e.Volumes, text_(given, "id")
	query, _ := given["query"].(step)
	body, _ := given["body"].(step)
	switch name {
	case "volume_create":
		made, err := volumes.Create(ctx, body)
		return known(made.Document, err)
	case "volume_list":
		all, err := volumes.List(ctx, filters(query["filters"]))
		return known(step{"Volumes": all}, err)
	case "volume_inspect":
		return known(some(volumes.Inspect(ctx, text_(given, "name"))))
	case "volume_remove":
		return known(nil, volumes.Remove(ctx, text_(given, "name")))
	case "volume_prune":
		return known(some(volumes.Prune(ctx, filters(given["filters"]))))
	case "network_create":
		return known(idOf(networks.Create(ctx, body)))
	case "network_list":
		return known(some(networks.List(ctx, filters(query["filters"]))))
	case "network_inspect":
		return known(some(networks.Inspect(ctx, id)))
	case "network_connect":
		return known(nil, networks.Connect(ctx, id, text_(body, "Container"), body["EndpointConfig"]))
	case "network_disconnect":
		return known(nil, networks.Disconnect(ctx, id, text_(body, "Container"), false))
	case "network_remove":
		return known(nil, networks.Remove(ctx, id))
	case "network_prune":
		return known(some(networks.Prune(ctx, filters(given["filters"]))))
	case "network_repair":
		return known(nil, networks.Repair(ctx))
	case "network_release":
		return known(nil, networks.Release(ctx))
	}
	return nil, nil, false
}

func (r *run) plugin(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	plugins, which, force := e.Plugins, text_(given, "name"), given["force"] == true
	query, _ := given["query"].(step)
	from := func() PluginSource {
		made := into[PluginSource](given["body"])
		made.Progress = r.progress(given)
		return made
	}
	switch name {
	case "plugin_list":
		return known(some(plugins.List(ctx, filters(query["filters"]))))
	case "plugin_inspect":
		return known(some(plugins.Inspect(ctx, which)))
	case "plugin_privileges":
		return known(some(plugins.Privileges(ctx, text_(given, "remote"), into[*Auth](given["auth"]))))
	case "plugin_pull":
		body, _ := given["body"].(step)
		return known(idOf(plugins.Pull(ctx, text_(body, "Name"), from())))
	case "plugin_upgrade":
		return known(nil, plugins.Upgrade(ctx, which, from()))
	case "plugin_enable":
		return known(nil, plugins.Enable(ctx, which, time.Duration(number(given, "seconds"))*time.Second))
	case "plugin_disable":
		return known(nil, plugins.Disable(ctx, which, force))
	case "plugin_remove":
		return known(nil, plugins.Remove(ctx, which, force))
	case "plugin_set":
		return known(nil, plugins.Set(ctx, which, texts(given["changes"])...))
	}
	return nil, nil, false
}

func (r *run) http(ctx context.Context, e *Engine, name string, given step) (any, error, bool) {
	server, _ := r.thing(text_(given, "of")).(*Server)
	switch name {
	case "http_request":
		var content []byte
		if given["body"] != nil {
			made, err := document(given["body"])
			if err != nil {
				return known(nil, err)
			}
			content = []byte(made.value)
		}
		answer, err := e.Request(ctx, text_(given, "method"), text_(given, "target"), into[map[string]string](given["headers"]), content)
		if err != nil {
			return known(nil, err)
		}
		defer answer.Body.Close()
		read, err := io.ReadAll(answer.Body)
		return known(step{"status": answer.Status, "body": body(read)}, err)
	case "http_connect":
		return known(requested(e.Transport(), text_(given, "target")))
	case "http_get_unix":
		dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", text_(given, "path")) }
		return known(requested(&http.Transport{DialContext: dial}, text_(given, "target")))
	case "http_serve":
		made, err := e.Serve(into[ServeOptions](given["options"]))
		if err == nil {
			r.keep(given, made)
		}
		return known(nil, err)
	case "http_server_addresses":
		return known(some(server.Addresses()))
	case "http_server_shutdown":
		return known(nil, server.Shutdown(ctx, millis(given, "grace_ms")))
	case "http_server_free":
		return known(nil, server.Close())
	}
	return nil, nil, false
}
