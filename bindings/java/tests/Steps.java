package dev.coracle;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;

/** Each step of the scenarios by the binding's own methods. */
final class Steps {
    /** An error of the caller's own function. */
    static final class Caller extends RuntimeException {
        private static final long serialVersionUID = 1;

        Caller() {
            super("the caller's own error");
        }
    }

    /** A step. */
    interface Step {
        Object run(Scenarios run, Engine engine, Given given) throws Exception;
    }

    private static final Map<String, Step> STEPS = new HashMap<>();

    private Steps() {}

    static {
        own();
        library();
        root();
        containers();
        running();
        files();
        sessions();
        streams();
        images();
        builds();
        networks();
        plugins();
        http();
    }

    static Object run(Scenarios run, Given given) throws Exception {
        Step step = STEPS.get(given.text("do"));
        if (step == null) {
            throw new Matching.Wrong("no step " + given.text("do"));
        }
        try {
            return step.run(run, (Engine) run.things.get(given.has("on") ? given.text("on") : "engine"), given);
        } catch (CompletionException | ExecutionException failed) {
            throw failed.getCause() instanceof Exception cause ? cause : failed;
        }
    }

    // ---- forms of results and arguments

    private static Object none(Runnable call) {
        call.run();
        return null;
    }

    private static Map<String, Object> coded(int code) {
        return Map.of("code", (long) code);
    }

    private static Map<String, Object> changed(boolean changed) {
        return Map.of("changed", changed);
    }

    private static Map<String, Object> made(String id) {
        return Map.of("id", id);
    }

    /** The object with the step's deadline, scope and progress. */
    private static <S extends Scoped<S>> S scoped(Scenarios run, Given given, S object) {
        S made = object;
        if (given.has("scope")) {
            made = made.cancelledBy((Cancel) run.things.get(given.text("scope")));
        }
        if (given.has("timeout_ms") && !given.text("do").equals("events_next")) {
            made = made.within(Duration.ofMillis(given.number("timeout_ms")));
        }
        if (given.is("refuse")) {
            return made.onProgress(record -> {
                throw new Caller();
            });
        }
        if (given.has("progress")) {
            List<Object> records = new ArrayList<>();
            run.values.put(given.text("progress"), records);
            return made.onProgress(record -> records.add(record.document().members()));
        }
        return made;
    }

    private static byte[] repeated(Object value) {
        if (value instanceof Map<?, ?> map) {
            return ((String) map.get("repeat")).repeat(((Long) map.get("times")).intValue()).getBytes(StandardCharsets.UTF_8);
        }
        return value == null ? new byte[0] : ((String) value).getBytes(StandardCharsets.UTF_8);
    }

    /** The archive of a step. */
    private static InputStream source(Given given) {
        if (given.is("broken")) {
            return new InputStream() {
                @Override
                public int read() {
                    throw new Caller();
                }
            };
        }
        return new ByteArrayInputStream(given.has("bytes") ? repeated(given.get("bytes")) : Tars.of(given.map("files")));
    }

    private static Object parsed(String text) {
        return text.startsWith("{") ? Document.parse(text) : text.trim();
    }

    private static Object answer(Response response) throws IOException {
        try (response) {
            return Map.of("status", (long) response.status(), "body", Matching.plain(parsed(response.text())));
        }
    }

    // ---- steps

    private static void own() {
        STEPS.put("scope", (run, engine, given) -> none(() -> run.things.put(given.text("as"), new Cancel())));
        STEPS.put("cancel", (run, engine, given) -> none(((Cancel) run.things.get(given.text("of")))::cancel));
        STEPS.put("sleep", (run, engine, given) -> {
            Thread.sleep(given.number("ms"));
            return null;
        });
        STEPS.put("value", (run, engine, given) -> given.get("value"));
        STEPS.put("file_exists", (run, engine, given) -> Files.exists(Path.of(given.text("path"))));
        STEPS.put("spawn", (run, engine, given) -> {
            FutureTask<Void> task = thread(() -> run.steps(given.list("steps")));
            run.things.put(given.text("as"), task);
            return null;
        });
        STEPS.put("join", (run, engine, given) -> ended((FutureTask<?>) run.things.get(given.text("of"))));
        STEPS.put("parallel", (run, engine, given) -> {
            List<FutureTask<Void>> all = new ArrayList<>();
            for (long at = 0; at < given.number("times"); at++) {
                all.add(thread(() -> run.aside(given.list("steps"))));
            }
            for (FutureTask<Void> one : all) {
                ended(one);
            }
            return null;
        });
    }

    /** Work that may throw. */
    interface Work {
        void run() throws Exception;
    }

    private static FutureTask<Void> thread(Work work) {
        FutureTask<Void> task = new FutureTask<>((Callable<Void>) () -> {
            work.run();
            return null;
        });
        new Thread(task).start();
        return task;
    }

    private static Object ended(FutureTask<?> task) throws InterruptedException {
        try {
            return task.get();
        } catch (ExecutionException failed) {
            throw new Matching.Wrong(failed.getCause().getMessage());
        }
    }

    private static void library() {
        STEPS.put("version", (run, engine, given) -> Map.of("text", Coracle.version(), "number", (long) Coracle.versionNumber()));
        STEPS.put("build_info", (run, engine, given) -> Coracle.buildInfo());
        STEPS.put("has_feature", (run, engine, given) -> Coracle.hasFeature(given.text("name")));
        STEPS.put("status_name", (run, engine, given) -> Coracle.statusName((int) given.number("code")));
        STEPS.put("set_log", (run, engine, given) -> {
            ConcurrentLinkedQueue<Object> records = new ConcurrentLinkedQueue<>();
            run.things.put(given.text("as"), records);
            Coracle.setLog((int) given.number("level"), (level, target, message) -> records.add(List.of(level.name(), target, message)));
            return null;
        });
        STEPS.put("unset_log", (run, engine, given) -> none(() -> Coracle.setLog(LogLevel.INFO, null)));
        STEPS.put("log_records", (run, engine, given) -> run.things.get(given.text("of")));
        STEPS.put("host_report", (run, engine, given) -> Coracle.hostReport(Path.of(given.text("root"))));
        STEPS.put("open", (run, engine, given) -> {
            OpenOptions options = OpenOptions.DEFAULTS.config(given.get("config"));
            if (given.has("run_dir")) {
                options = options.runDir(Path.of(given.text("run_dir")));
            }
            for (String flag : given.texts("flags")) {
                options = switch (flag) {
                    case "existing" -> options.existing();
                    case "lenient" -> options.lenient();
                    default -> options.ephemeral();
                };
            }
            run.things.put(given.text("as"), Coracle.open(Path.of(given.text("root")), options));
            return null;
        });
        STEPS.put("ref", (run, engine, given) -> none(() -> run.things.put(given.text("as"), engine.again())));
        STEPS.put("close", (run, engine, given) -> none(engine::close));
    }

    private static void root() {
        STEPS.put("engine_info", (run, engine, given) -> scoped(run, given, engine).info());
        STEPS.put("engine_version", (run, engine, given) -> engine.version());
        STEPS.put("engine_metrics", (run, engine, given) -> engine.metrics());
        STEPS.put("engine_disk_usage", (run, engine, given) -> {
            String[] kinds = given.has("query") ? ((List<?>) given.map("query").get("type")).toArray(new String[0]) : new String[0];
            return engine.diskUsage(kinds);
        });
        STEPS.put("engine_reload", (run, engine, given) -> {
            Map<String, String> settings = new HashMap<>();
            given.map("settings").forEach((name, value) -> settings.put(name, (String) value));
            return none(() -> engine.reload(List.of(given.texts("labels")), settings));
        });
        STEPS.put("root_verify", (run, engine, given) -> scoped(run, given, engine).verify((Boolean) given.map("query").get("repair")));
        STEPS.put("root_leftovers", (run, engine, given) -> engine.leftovers());
        STEPS.put("root_sweep", (run, engine, given) -> engine.sweep());
        STEPS.put("root_copy", (run, engine, given) ->
                engine.copyRoot(Path.of(given.text("dir")), given.has("query") && (Boolean) given.map("query").get("pause")));
        STEPS.put("root_import_docker", (run, engine, given) -> engine.importDocker(given.get("query")));
        STEPS.put("lease_hold", (run, engine, given) -> none(() -> run.things.put(given.text("as"), engine.lease(given.text("name")))));
        STEPS.put("lease_free", (run, engine, given) -> none(((Descriptor) run.things.get(given.text("of")))::close));
    }

    private static Container of(Scenarios run, Engine engine, Given given) {
        return scoped(run, given, engine.container(given.text("id")));
    }

    private static void containers() {
        STEPS.put("container_create", (run, engine, given) -> {
            Container made = scoped(run, given, engine.containers()).create(given.text("name"), given.get("body"));
            return Map.of("id", made.id(), "Warnings", made.warnings());
        });
        STEPS.put("container_list", (run, engine, given) -> engine.containers().list(given.get("query")));
        STEPS.put("container_prune", (run, engine, given) -> engine.containers().prune(given.get("filters")));
        STEPS.put("container_inspect", (run, engine, given) ->
                given.is("size") ? of(run, engine, given).inspectSize() : of(run, engine, given).inspect());
        STEPS.put("container_explain", (run, engine, given) -> of(run, engine, given).explain());
        STEPS.put("container_top", (run, engine, given) -> of(run, engine, given).top(given.text("ps_args")));
        STEPS.put("container_stats", (run, engine, given) -> {
            if (!given.has("count")) {
                return List.of(of(run, engine, given).stats());
            }
            try (Records<Document> samples = of(run, engine, given).samples()) {
                return samples.stream().limit(given.number("count")).toList();
            }
        });
        STEPS.put("container_update", (run, engine, given) -> of(run, engine, given).update(given.get("body")));
        STEPS.put("container_rename", (run, engine, given) -> none(() -> of(run, engine, given).rename(given.text("name"))));
        STEPS.put("container_remove", (run, engine, given) -> {
            List<Remove> how = new ArrayList<>();
            if (given.is("force")) {
                how.add(Remove.FORCE);
            }
            if (given.is("volumes")) {
                how.add(Remove.VOLUMES);
            }
            return none(() -> of(run, engine, given).remove(how.toArray(new Remove[0])));
        });
    }

    private static ProcessIo io(Given given) {
        return given.has("rows") ? ProcessIo.terminal((int) given.number("rows"), (int) given.number("cols")) : ProcessIo.PIPES;
    }

    private static void running() {
        STEPS.put("container_start", (run, engine, given) -> {
            Container container = of(run, engine, given);
            if (!given.is("attach")) {
                return changed(container.start());
            }
            run.things.put(given.text("as"), container.startAttached(io(given)));
            return changed(true);
        });
        STEPS.put("container_attach", (run, engine, given) ->
                none(() -> run.things.put(given.text("as"), of(run, engine, given).attach(given.get("query"), io(given)))));
        STEPS.put("container_stop", (run, engine, given) ->
                changed(of(run, engine, given).stop(Duration.ofMillis(given.number("grace_ms")))));
        STEPS.put("container_stop_with", (run, engine, given) -> changed(of(run, engine, given).stopWith(given.get("how"))));
        STEPS.put("container_restart", (run, engine, given) ->
                none(() -> of(run, engine, given).restart(Duration.ofMillis(given.number("grace_ms")))));
        STEPS.put("container_restart_with", (run, engine, given) -> none(() -> of(run, engine, given).restartWith(given.get("how"))));
        STEPS.put("container_kill", (run, engine, given) -> none(() -> of(run, engine, given).kill(given.text("signal"))));
        STEPS.put("container_pause", (run, engine, given) -> none(of(run, engine, given)::pause));
        STEPS.put("container_unpause", (run, engine, given) -> none(of(run, engine, given)::unpause));
        STEPS.put("container_wait", (run, engine, given) -> coded(of(run, engine, given).onExit(given.text("condition")).join()));
        STEPS.put("begin_wait", (run, engine, given) -> {
            CompletableFuture<Integer> exit = of(run, engine, given).onExit(given.text("condition"));
            // A refusal comes with the future.
            if (given.has("error")) {
                return exit.join();
            }
            run.things.put(given.text("as"), exit);
            return null;
        });
        STEPS.put("pending_result", (run, engine, given) -> coded(((CompletableFuture<?>) run.things.get(given.text("of"))).join() instanceof Integer code ? code : -1));
        STEPS.put("container_pidfd", (run, engine, given) -> {
            Descriptor pidfd = of(run, engine, given).pidfd();
            boolean ended = pidfd.isReadable();
            if (given.has("as")) {
                run.things.put(given.text("as"), pidfd);
            } else {
                pidfd.close();
            }
            return Map.of("ended", ended);
        });
        STEPS.put("pidfd_wait", (run, engine, given) -> none(((Descriptor) run.things.get(given.text("of")))::await));
    }

    private static void files() {
        STEPS.put("container_stat_path", (run, engine, given) -> of(run, engine, given).statPath(given.text("path")));
        STEPS.put("container_get_archive", (run, engine, given) -> {
            try (Container.Archive archive = of(run, engine, given).getArchive(given.text("path"))) {
                return Map.of("files", Tars.files(archive.body()), "stat", archive.stat().members());
            }
        });
        STEPS.put("container_put_archive", (run, engine, given) ->
                none(() -> of(run, engine, given).putArchive(given.text("path"), source(given), given.get("query"))));
        STEPS.put("container_export", (run, engine, given) -> {
            try (Body body = of(run, engine, given).export()) {
                return Map.of("files", Tars.files(body));
            }
        });
        STEPS.put("container_changes", (run, engine, given) -> of(run, engine, given).changes());
        STEPS.put("container_commit", (run, engine, given) -> made(of(run, engine, given).commit(given.get("query"), given.get("config"))));
    }

    private static Session session(Scenarios run, Given given) {
        return scoped(run, given, (Session) run.things.get(given.text("of")));
    }

    private static Object readUntil(Scenarios run, Given given) {
        Map<String, Object> seen = run.read.computeIfAbsent(given.text("of"), none -> new HashMap<>(Map.of("stdout", "", "stderr", "")));
        List<String> names = given.has("channel") ? List.of(given.text("channel")) : List.of("stdout", "stderr");
        java.util.function.BooleanSupplier there =
                () -> given.has("until") && names.stream().anyMatch(name -> ((String) seen.get(name)).contains(given.text("until")));
        while (!there.getAsBoolean()) {
            Session.Piece piece = session(run, given).read();
            if (piece == null) {
                break;
            }
            seen.merge(piece.channel().name().toLowerCase(Locale.ROOT), piece.text(), (before, more) -> before.toString() + more);
        }
        if (given.has("until") && !there.getAsBoolean()) {
            throw new Matching.Wrong("the output ended without " + given.text("until") + ": " + seen);
        }
        return seen;
    }

    private static void sessions() {
        STEPS.put("session_read", (run, engine, given) -> readUntil(run, given));
        STEPS.put("session_write", (run, engine, given) -> {
            byte[] data = repeated(given.get("data"));
            session(run, given).write(data);
            return Map.of("count", (long) data.length);
        });
        STEPS.put("session_close_stdin", (run, engine, given) -> none(session(run, given)::closeStdin));
        STEPS.put("session_streams", (run, engine, given) -> {
            Output output = session(run, given).communicate(new ByteArrayInputStream(repeated(given.get("input"))));
            return Map.of("stdout", output.text(), "stderr", output.errorText());
        });
        STEPS.put("session_fd", (run, engine, given) -> session(run, given).has(Channel.valueOf(given.text("channel").toUpperCase(Locale.ROOT))));
        STEPS.put("session_resize", (run, engine, given) -> none(() -> session(run, given).resize((int) given.number("rows"), (int) given.number("cols"))));
        STEPS.put("session_wait", (run, engine, given) -> coded(session(run, given).waitFor()));
        STEPS.put("session_free", (run, engine, given) -> none(session(run, given)::close));
        STEPS.put("exec_create", (run, engine, given) -> made(of(run, engine, given).exec(given.get("body")).id()));
        STEPS.put("exec_start", (run, engine, given) -> {
            Exec exec = scoped(run, given, engine.containers().exec(given.text("id")));
            if (given.is("attach")) {
                run.things.put(given.text("as"), exec.startAttached(io(given)));
                return null;
            }
            return none(exec::start);
        });
        STEPS.put("exec_wait", (run, engine, given) -> coded(scoped(run, given, engine.containers().exec(given.text("id"))).waitFor()));
        STEPS.put("exec_inspect", (run, engine, given) -> engine.containers().exec(given.text("id")).inspect());
    }

    private static Map<String, Object> line(LogLine line) {
        return Map.of("channel", line.channel().name().toLowerCase(Locale.ROOT), "text", line.text());
    }

    @SuppressWarnings("unchecked")
    private static Records<LogLine> logs(Scenarios run, Given given) {
        return scoped(run, given, (Records<LogLine>) run.things.get(given.text("of")));
    }

    private static Events events(Scenarios run, Given given) {
        return scoped(run, given, (Events) run.things.get(given.text("of")));
    }

    private static void streams() {
        STEPS.put("container_logs", (run, engine, given) -> {
            try (Records<LogLine> logs = of(run, engine, given).logs(given.get("query"))) {
                return logs.stream().map(Steps::line).toList();
            }
        });
        STEPS.put("logs_open", (run, engine, given) -> none(() -> run.things.put(given.text("as"), of(run, engine, given).logs(given.get("query")))));
        STEPS.put("logs_next", (run, engine, given) -> line(logs(run, given).next()));
        STEPS.put("stream_fd", (run, engine, given) -> logs(run, given).fd() >= 0);
        STEPS.put("stream_lost", (run, engine, given) -> logs(run, given).lost());
        STEPS.put("stream_free", (run, engine, given) -> none(logs(run, given)::close));
        STEPS.put("events_open", (run, engine, given) -> none(() -> run.things.put(given.text("as"), engine.events(given.get("query")))));
        STEPS.put("events_fd", (run, engine, given) -> events(run, given).fd() >= 0);
        STEPS.put("events_next", (run, engine, given) -> {
            if (given.has("timeout_ms")) {
                return events(run, given).poll().<Object>map(Event::document).orElse(Map.of("again", true));
            }
            Event event = events(run, given).next();
            return event == null ? Map.of("done", true) : event.document();
        });
        STEPS.put("events_until", (run, engine, given) -> {
            List<String> actions = new ArrayList<>();
            for (Event event : events(run, given)) {
                actions.add(event.action());
                if (event.action().equals(given.text("action"))) {
                    return actions;
                }
            }
            throw new Matching.Wrong("the events end at " + actions);
        });
        STEPS.put("events_free", (run, engine, given) -> none(events(run, given)::close));
    }

    private static Images images(Scenarios run, Engine engine, Given given) {
        return scoped(run, given, engine.images());
    }

    private static void images() {
        STEPS.put("image_list", (run, engine, given) -> engine.images().list(given.get("query")));
        STEPS.put("image_inspect", (run, engine, given) -> engine.images().inspect(given.text("ref")));
        STEPS.put("image_history", (run, engine, given) -> engine.images().history(given.text("ref")));
        STEPS.put("image_tag", (run, engine, given) -> none(() -> engine.images().tag(given.text("ref"), given.text("new_ref"))));
        STEPS.put("image_remove", (run, engine, given) -> {
            List<Images.How> how = new ArrayList<>();
            if (given.is("force")) {
                how.add(Images.How.FORCE);
            }
            if (given.is("no_prune")) {
                how.add(Images.How.NO_PRUNE);
            }
            return images(run, engine, given).remove(given.text("ref"), how.toArray(new Images.How[0]));
        });
        STEPS.put("image_prune", (run, engine, given) -> engine.images().prune(given.get("filters")));
        STEPS.put("image_save", (run, engine, given) -> {
            Path file = Path.of(given.text("file") == null ? run.dir + "/none.tar" : given.text("file"));
            try (Body body = engine.images().save(given.text("layout"), given.texts("names"))) {
                Files.copy(body, file);
            }
            return Map.of("bytes", Files.size(file));
        });
        STEPS.put("image_pull", (run, engine, given) -> made(images(run, engine, given).pull(given.text("ref"), given.text("platform"), null)));
        STEPS.put("image_push", (run, engine, given) -> images(run, engine, given).push(given.text("ref")));
        STEPS.put("image_search", (run, engine, given) -> {
            Map<String, Object> more = new HashMap<>(given.map("query"));
            return engine.images().search((String) more.remove("term"), more, null);
        });
        STEPS.put("registry_inspect", (run, engine, given) -> engine.images().inspectRemote(given.text("ref"), null));
        STEPS.put("registry_auth", (run, engine, given) -> engine.images().checkLogin(given.get("auth")));
    }

    private static void builds() {
        STEPS.put("build_prune", (run, engine, given) -> engine.images().pruneCaches(given.get("filters")));
        STEPS.put("image_load", (run, engine, given) -> given.has("path")
                ? images(run, engine, given).load(Path.of(given.text("path")))
                : images(run, engine, given).load(source(given)));
        STEPS.put("image_import", (run, engine, given) -> made(images(run, engine, given).importImage(source(given), given.get("query"))));
        STEPS.put("image_build", (run, engine, given) -> made(images(run, engine, given).build(source(given), given.get("query"))));
        STEPS.put("image_build_dir", (run, engine, given) -> {
            Path context = Files.createTempDirectory(run.dir, "context-");
            for (Map.Entry<String, Object> one : given.map("files").entrySet()) {
                Files.writeString(context.resolve(one.getKey()), (String) one.getValue());
            }
            return made(images(run, engine, given).buildDir(context, given.get("query")));
        });
    }

    private static void networks() {
        STEPS.put("volume_create", (run, engine, given) -> engine.volumes().create(given.get("body")));
        STEPS.put("volume_list", (run, engine, given) -> Map.of("Volumes", Matching.plain(engine.volumes().list(given.get("query")))));
        STEPS.put("volume_inspect", (run, engine, given) -> engine.volumes().inspect(given.text("name")));
        STEPS.put("volume_remove", (run, engine, given) -> none(() -> engine.volumes().remove(given.text("name"))));
        STEPS.put("volume_prune", (run, engine, given) -> engine.volumes().prune(given.get("filters")));
        STEPS.put("network_create", (run, engine, given) -> made(engine.networks().create(given.get("body"))));
        STEPS.put("network_list", (run, engine, given) -> engine.networks().list(given.get("query")));
        STEPS.put("network_inspect", (run, engine, given) -> engine.networks().inspect(given.text("id")));
        STEPS.put("network_connect", (run, engine, given) -> {
            Map<String, Object> body = given.map("body");
            return none(() -> engine.networks().connect(given.text("id"), (String) body.get("Container"), body.get("EndpointConfig")));
        });
        STEPS.put("network_disconnect", (run, engine, given) ->
                none(() -> engine.networks().disconnect(given.text("id"), (String) given.map("body").get("Container"), false)));
        STEPS.put("network_remove", (run, engine, given) -> none(() -> engine.networks().remove(given.text("id"))));
        STEPS.put("network_prune", (run, engine, given) -> engine.networks().prune(given.get("filters")));
        STEPS.put("network_repair", (run, engine, given) -> none(engine.networks()::repair));
        STEPS.put("network_release", (run, engine, given) -> none(engine.networks()::release));
    }

    private static Plugins plugins(Scenarios run, Engine engine, Given given) {
        return scoped(run, given, engine.plugins());
    }

    private static void plugins() {
        STEPS.put("plugin_list", (run, engine, given) -> engine.plugins().list(given.get("query")));
        STEPS.put("plugin_inspect", (run, engine, given) -> engine.plugins().inspect(given.text("name")));
        STEPS.put("plugin_privileges", (run, engine, given) -> plugins(run, engine, given).privileges(given.text("remote"), given.get("auth")));
        STEPS.put("plugin_pull", (run, engine, given) -> made(plugins(run, engine, given).pull(given.get("body"))));
        STEPS.put("plugin_upgrade", (run, engine, given) -> none(() -> plugins(run, engine, given).upgrade(given.text("name"), given.get("body"))));
        STEPS.put("plugin_enable", (run, engine, given) -> none(() -> plugins(run, engine, given)
                .enable(given.text("name"), given.has("seconds") ? Duration.ofSeconds(given.number("seconds")) : Duration.ZERO)));
        STEPS.put("plugin_disable", (run, engine, given) -> none(() -> plugins(run, engine, given).disable(given.text("name"), given.is("force"))));
        STEPS.put("plugin_remove", (run, engine, given) -> none(() -> plugins(run, engine, given).remove(given.text("name"), given.is("force"))));
        STEPS.put("plugin_set", (run, engine, given) -> none(() -> engine.plugins().set(given.text("name"), given.texts("changes"))));
    }

    private static void http() {
        STEPS.put("http_request", (run, engine, given) -> {
            Map<String, String> headers = new HashMap<>();
            if (given.has("headers")) {
                given.map("headers").forEach((name, value) -> headers.put(name, (String) value));
            }
            byte[] body = given.has("body") ? Document.write(given.get("body")).getBytes(StandardCharsets.UTF_8) : null;
            return answer(scoped(run, given, engine).request(given.text("method"), given.text("target"), headers, body));
        });
        STEPS.put("http_connect", (run, engine, given) -> {
            try (Connection connection = engine.connect()) {
                return answer(connection.request("GET", given.text("target"), Map.of(), null));
            }
        });
        STEPS.put("http_get_unix", (run, engine, given) -> unix(given.text("path"), given.text("target")));
        STEPS.put("http_serve", (run, engine, given) -> none(() -> run.things.put(given.text("as"), engine.serve(given.get("options")))));
        STEPS.put("http_server_addresses", (run, engine, given) -> ((Server) run.things.get(given.text("of"))).addresses());
        STEPS.put("http_server_shutdown", (run, engine, given) ->
                none(() -> scoped(run, given, (Server) run.things.get(given.text("of"))).shutdown(Duration.ofMillis(given.number("grace_ms")))));
        STEPS.put("http_server_free", (run, engine, given) -> none(((Server) run.things.get(given.text("of")))::close));
    }

    /** A request over a socket, by Java alone. */
    private static Object unix(String path, String target) throws IOException {
        try (SocketChannel channel = SocketChannel.open(StandardProtocolFamily.UNIX)) {
            channel.connect(UnixDomainSocketAddress.of(path));
            channel.write(ByteBuffer.wrap(("GET " + target + " HTTP/1.0\r\nHost: coracle\r\n\r\n").getBytes(StandardCharsets.US_ASCII)));
            String all = new String(Channels.newInputStream(channel).readAllBytes(), StandardCharsets.UTF_8);
            return Map.of("status", Long.parseLong(all.split(" ", 3)[1]), "body", all.substring(all.indexOf("\r\n\r\n") + 4).trim());
        }
    }
}
