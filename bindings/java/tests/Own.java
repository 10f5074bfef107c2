package dev.coracle;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;

/**
 * What is particular to Java: futures, interruption, closed handles, the garbage collector, callbacks, streams.
 *
 * <p>Own [WORDS]. Environment: CORACLE_LIBRARY, CORACLE_TEST_IMAGE, CORACLE_LIVES (how many lives the test of leaks makes). Needs root.
 */
final class Own {
    private static final long SECONDS = Long.parseLong(System.getenv().getOrDefault("CORACLE_TEST_SECONDS", "300"));
    private static final Duration LONG = Duration.ofSeconds(SECONDS);
    private static final Duration SHORT = Duration.ofMillis(100);
    private static final int LIVES = Integer.parseInt(System.getenv().getOrDefault("CORACLE_LIVES", "20"));

    /** A test, with an engine of its own and its directory. */
    interface Test {
        void run(Engine engine, Path dir) throws Exception;
    }

    /** A call that may throw. */
    interface Try {
        void run() throws Exception;
    }

    private Own() {}

    static void same(Object expected, Object got) {
        if (!java.util.Objects.equals(expected, got)) {
            throw new AssertionError("wanted " + expected + ", got " + got);
        }
    }

    static <E extends Throwable> E raises(Class<E> kind, Try call) {
        try {
            call.run();
        } catch (Throwable thrown) {
            if (kind.isInstance(thrown)) {
                return kind.cast(thrown);
            }
            throw new AssertionError("wanted " + kind.getName() + ", got " + thrown, thrown);
        }
        throw new AssertionError("wanted " + kind.getName() + ", and nothing was thrown");
    }

    static void soon(String what, BooleanSupplier there) throws InterruptedException {
        long end = System.nanoTime() + LONG.toNanos();
        while (!there.getAsBoolean()) {
            if (System.nanoTime() > end) {
                throw new AssertionError("it never came: " + what);
            }
            Thread.sleep(10);
        }
    }

    static Path archive() {
        return Path.of(System.getenv("CORACLE_TEST_IMAGE"));
    }

    static Document shell(String script) {
        return Document.of("Image", "busybox", "Cmd", List.of("sh", "-c", script), "OpenStdin", true, "StdinOnce", true,
                "HostConfig", Map.of("NetworkMode", "none"));
    }

    /** A container that runs until it is killed. */
    static Container running(Engine engine) {
        Container made = engine.containers().create(shell("echo ready; exec sleep 1000"));
        try (Session session = made.startAttached()) {
            same("ready\n", session.within(LONG).read().text());
        }
        return made;
    }

    static int descriptors() {
        return new File("/proc/self/fd").list().length;
    }

    /** A thread whose throwable is kept. */
    static final class Worker {
        final AtomicReference<Throwable> thrown = new AtomicReference<>();
        final Thread thread;

        Worker(Try work) {
            thread = new Thread(() -> {
                try {
                    work.run();
                } catch (Throwable failed) {
                    thrown.set(failed);
                }
            });
            thread.start();
        }

        Throwable join() throws InterruptedException {
            thread.join(LONG.toMillis());
            same(false, thread.isAlive());
            return thrown.get();
        }
    }

    static final Map<String, Test> TESTS = new LinkedHashMap<>();

    static {
        errors();
        futures();
        waits();
        interruption();
        handles();
        collected();
        forgotten();
        streams();
        processes();
        connections();
        callbacks();
        leaks();
    }

    private static void errors() {
        TESTS.put("errors have a class, a code, a status and the field", (engine, dir) -> {
            CoracleException.NotFound gone = raises(CoracleException.NotFound.class, () -> engine.container("nobody").inspect());
            same(List.of(Code.NOT_FOUND, 404, 0), List.of(gone.code(), gone.status(), gone.errno()));
            CoracleException wrong = raises(CoracleException.Invalid.class,
                    () -> engine.containers().create(Map.of("Image", "busybox", "HostConfig", Map.of("Memory", "lots"))));
            same("HostConfig.Memory", wrong.field());
        });
        TESTS.put("values that are no documents are errors, and none is a crash", (engine, dir) -> {
            raises(CoracleException.Invalid.class, () -> engine.containers().create("a text"));
            raises(CoracleException.Invalid.class, () -> engine.containers().create(List.of(1, 2)));
            raises(CoracleException.Invalid.class, () -> engine.containers().create(null));
            raises(CoracleException.Invalid.class, () -> engine.containers().create(Map.of("Image", Double.NaN)));
            Map<String, Object> endless = new java.util.HashMap<>();
            endless.put("Labels", endless);
            raises(CoracleException.Invalid.class, () -> engine.containers().create(endless));
            raises(CoracleException.Invalid.class, () -> engine.container(null).inspect());
            raises(CoracleException.Invalid.class, () -> engine.images().load((InputStream) null));
            raises(IllegalArgumentException.class, () -> ProcessIo.terminal(70000, 1));
            raises(NoSuchFileException.class, () -> engine.images().load(dir.resolve("nothing.tar")));
            raises(NoSuchFileException.class, () -> engine.images().buildDir(dir.resolve("nothing"), null));
        });
        TESTS.put("documents are records, too", (engine, dir) -> {
            Container box = engine.containers().create(new Spec("busybox", List.of("true"), Map.of("a", "b")));
            record State(String Status, int ExitCode) {}
            record Inspected(String Id, State State) {}
            Inspected found = box.inspect().as(Inspected.class);
            same(List.of(box.id(), "created"), List.of(found.Id(), found.State().Status()));
            same(Map.of("a", "b"), box.inspect().map("Config.Labels"));
        });
    }

    /** The body of a create. */
    record Spec(String Image, List<String> Cmd, Map<String, String> Labels) {}

    private static void futures() {
        TESTS.put("a future that is cancelled ends its call", (engine, dir) -> {
            Container box = engine.containers().create(shell("trap '' TERM; echo ready; while :; do sleep 0.05; done"));
            try (Session session = box.startAttached()) {
                same("ready\n", session.within(LONG).read().text());
            }
            CountDownLatch begun = new CountDownLatch(1);
            AtomicReference<Throwable> thrown = new AtomicReference<>();
            CompletableFuture<Boolean> stopping = box.async(one -> {
                begun.countDown();
                try {
                    return one.stop(Duration.ofMillis(-1));
                } catch (CoracleException ended) {
                    thrown.set(ended);
                    throw ended;
                }
            });
            same(true, begun.await(SECONDS, TimeUnit.SECONDS));
            same(true, stopping.cancel(true));
            raises(CancellationException.class, stopping::join);
            soon("the end of the call", () -> thrown.get() != null);
            same(CoracleException.Cancelled.class, thrown.get().getClass());
            same(true, box.inspect().is("State.Running"));
        });
        TESTS.put("a future that times out ends its call, and a deadline fails a future", (engine, dir) -> {
            Container box = running(engine);
            AtomicReference<Throwable> thrown = new AtomicReference<>();
            try (Session session = box.attach()) {
                CompletableFuture<Session.Piece> reading = session.<Session.Piece>async(one -> {
                    try {
                        return one.read();
                    } catch (CoracleException ended) {
                        thrown.set(ended);
                        throw ended;
                    }
                }).orTimeout(50, TimeUnit.MILLISECONDS);
                same(TimeoutException.class, raises(CompletionException.class, reading::join).getCause().getClass());
                soon("the end of the call", () -> thrown.get() != null);
                same(CoracleException.Cancelled.class, thrown.get().getClass());
                CompletableFuture<Session.Piece> late = session.within(SHORT).async(Session::read);
                same(CoracleException.Timeout.class, raises(CompletionException.class, late::join).getCause().getClass());
            }
        });
    }

    private static void waits() {
        TESTS.put("a hundred waits take no thread, and end together or when they are cancelled", (engine, dir) -> {
            Container box = running(engine);
            int before = Thread.activeCount();
            List<CompletableFuture<Integer>> all = new ArrayList<>();
            for (int at = 0; at < 100; at++) {
                all.add(box.onExit());
            }
            // The pool may have a few threads that still end their work; a thread for each wait would be a hundred.
            same(true, Thread.activeCount() < before + 50);
            same(true, all.get(0).cancel(true));
            CompletableFuture<Integer> late = box.within(SHORT).onExit();
            same(CoracleException.Timeout.class, raises(CompletionException.class, late::join).getCause().getClass());
            box.kill();
            for (CompletableFuture<Integer> one : all.subList(1, 100)) {
                same(137, one.get(SECONDS, TimeUnit.SECONDS));
            }
            raises(CancellationException.class, () -> all.get(0).join());
        });
        TESTS.put("a wait for what is not there is a future that has failed", (engine, dir) -> {
            CompletableFuture<Integer> none = engine.container("nobody").onExit();
            same(CoracleException.NotFound.class, raises(CompletionException.class, none::join).getCause().getClass());
        });
        TESTS.put("a call in a cancelled scope does nothing", (engine, dir) -> {
            Cancel cancel = new Cancel();
            cancel.cancel();
            raises(CoracleException.Cancelled.class, () -> engine.containers().cancelledBy(cancel).create("never", shell("true")));
            raises(CoracleException.NotFound.class, () -> engine.container("never").inspect());
        });
    }

    private static void interruption() {
        TESTS.put("an interrupted thread ends its call, and stays interrupted", (engine, dir) -> {
            Container box = running(engine);
            List<Try> calls = new ArrayList<>();
            Session session = box.attach();
            Events events = engine.events(Map.of("filters", Map.of("type", List.of("volume"))));
            Records<LogLine> logs = box.logs(Map.of("follow", true, "tail", 0));
            calls.add(box::waitFor);
            calls.add(session::read);
            calls.add(events::next);
            calls.add(logs::next);
            for (Try call : calls) {
                AtomicBoolean stays = new AtomicBoolean();
                Worker worker = new Worker(() -> {
                    try {
                        call.run();
                    } finally {
                        stays.set(Thread.currentThread().isInterrupted());
                    }
                });
                Thread.sleep(50);
                worker.thread.interrupt();
                Throwable thrown = worker.join();
                same(CoracleException.Cancelled.class, thrown == null ? null : thrown.getClass());
                same(InterruptedException.class, thrown.getCause().getClass());
                same(true, stays.get());
            }
            Worker reader = new Worker(() -> session.stdout().read());
            Thread.sleep(50);
            reader.thread.interrupt();
            same(InterruptedIOException.class, reader.join().getClass());
            session.close();
            events.close();
            logs.close();
            same(true, box.inspect().is("State.Running"));
        });
    }

    private static void handles() {
        TESTS.put("closed handles are misuse, and close again", (engine, dir) -> {
            Container box = running(engine);
            Session session = box.attach();
            Events events = engine.events();
            Records<LogLine> logs = box.logs();
            Descriptor pidfd = box.pidfd();
            Engine other = engine.again();
            for (AutoCloseable one : List.of(session, events, logs, pidfd, other)) {
                one.close();
                one.close();
            }
            raises(CoracleException.Misuse.class, session::read);
            raises(CoracleException.Misuse.class, () -> session.write("x"));
            raises(CoracleException.Misuse.class, events::next);
            raises(CoracleException.Misuse.class, logs::next);
            raises(CoracleException.Misuse.class, pidfd::isReadable);
            raises(CoracleException.Misuse.class, other::info);
            raises(CoracleException.Misuse.class, other::again);
            raises(CoracleException.Misuse.class, () -> other.containers().list());
            raises(IOException.class, () -> session.stdin().write(1));
        });
        TESTS.put("a close from another thread ends the call", (engine, dir) -> {
            Container box = running(engine);
            Session session = box.attach();
            Events events = engine.events(Map.of("filters", Map.of("type", List.of("volume"))));
            Records<LogLine> logs = box.logs(Map.of("follow", true, "tail", 0));
            Worker[] workers = {new Worker(session::read), new Worker(events::next), new Worker(logs::next)};
            Session taken = box.attach();
            InputStream stdout = taken.stdout();
            Worker reader = new Worker(stdout::read);
            Thread.sleep(100);
            session.close();
            events.close();
            logs.close();
            taken.close();
            for (Worker one : workers) {
                same(true, one.join() instanceof CoracleException);
            }
            same(true, reader.join() instanceof IOException);
        });
        TESTS.put("many threads use one engine, and one closes it meanwhile", (engine, dir) -> {
            Engine shared = engine.again();
            List<Worker> workers = new ArrayList<>();
            for (int at = 0; at < 16; at++) {
                workers.add(new Worker(() -> {
                    for (;;) {
                        shared.containers().list(Map.of("all", true));
                        shared.images().inspect("busybox");
                    }
                }));
            }
            Thread.sleep(100);
            shared.close();
            for (Worker one : workers) {
                same(CoracleException.Misuse.class, one.join().getClass());
            }
            same(1, engine.images().list().size());
        });
    }

    private static void collected() {
        TESTS.put("the garbage collector comes during calls, and ends forgotten handles", (engine, dir) -> {
            Container box = running(engine);
            AtomicBoolean ended = new AtomicBoolean();
            Worker collector = new Worker(() -> {
                while (!ended.get()) {
                    System.gc();
                }
            });
            int before = descriptors();
            for (int at = 0; at < 50; at++) {
                // Nothing keeps these but the call.
                engine.again().containers().list();
                same("ready", box.logs().next().text());
                engine.events().poll();
                // A container has a bounded number of clients.
                if (at % 12 == 0) {
                    raises(CoracleException.Timeout.class, () -> box.attach().within(Duration.ofMillis(5)).read());
                    box.attach().stdout();
                }
            }
            ended.set(true);
            same(null, collector.join());
            soon("the end of forgotten handles", () -> {
                System.gc();
                return descriptors() <= before;
            });
        });
    }

    private static void forgotten() {
        TESTS.put("streams of a session that nobody keeps go on", (engine, dir) -> {
            Container box = engine.containers().create(shell("trap 'echo end; exit' USR1; echo ready; while :; do sleep 0.05; done"));
            InputStream out = box.startAttached().stdout();
            same("ready\n", new String(out.readNBytes(6), StandardCharsets.UTF_8));
            for (int at = 0; at < 5; at++) {
                System.gc();
                Thread.sleep(10);
            }
            box.kill("USR1");
            same("end\n", new String(out.readAllBytes(), StandardCharsets.UTF_8));
            Container echo = engine.containers().create(shell("cat; exit 4"));
            OutputStream in = echo.startAttached().stdin();
            for (int at = 0; at < 5; at++) {
                System.gc();
                Thread.sleep(10);
            }
            in.write("x".getBytes(StandardCharsets.UTF_8));
            in.close();
            same(4, echo.waitFor());
        });
        TESTS.put("a descriptor that was taken outlives its session", (engine, dir) -> {
            Container box = engine.containers().create(shell("read x; echo late"));
            Session session = box.startAttached();
            Descriptor out = session.take(Channel.STDOUT);
            same(null, session.take(Channel.STDOUT));
            same(-1, session.stdout().read());
            session.write("x\n");
            same(0, session.waitFor());
            session.close();
            same("late\n", new String(out.input().readAllBytes(), StandardCharsets.UTF_8));
            out.close();
        });
        TESTS.put("a server that nobody keeps serves", (engine, dir) -> {
            String address = engine.serve(Map.of("Addresses", List.of("tcp://127.0.0.1:0"), "InsecureTcp", true)).addresses().get(0);
            for (int at = 0; at < 5; at++) {
                System.gc();
                Thread.sleep(10);
            }
            java.net.URI uri = java.net.URI.create(address.replace("tcp:", "http:") + "/_ping");
            try (InputStream answer = uri.toURL().openStream()) {
                same("OK", new String(answer.readAllBytes(), StandardCharsets.UTF_8).trim());
            }
        });
    }

    private static void streams() {
        TESTS.put("streams of Java: input and both outputs", (engine, dir) -> {
            Container box = engine.containers().create(shell("while read line; do echo out $line; echo err $line >&2; done; exit 4"));
            try (Session session = box.startAttached()) {
                OutputStream stdin = session.stdin();
                java.io.BufferedReader out = new java.io.BufferedReader(new java.io.InputStreamReader(session.stdout(), StandardCharsets.UTF_8));
                java.io.BufferedReader err = new java.io.BufferedReader(new java.io.InputStreamReader(session.stderr(), StandardCharsets.UTF_8));
                for (String word : List.of("one", "two")) {
                    stdin.write((word + "\n").getBytes(StandardCharsets.UTF_8));
                    same("out " + word, out.readLine());
                    same("err " + word, err.readLine());
                }
                stdin.close();
                same(null, out.readLine());
                same(null, err.readLine());
                same(4, session.waitFor());
            }
        });
        TESTS.put("a deadline ends a read of a stream", (engine, dir) -> {
            Container box = running(engine);
            try (Session session = box.attach()) {
                InputStream out = session.within(SHORT).stdout();
                same(CoracleException.Timeout.class, raises(InterruptedIOException.class, out::read).getCause().getClass());
            }
        });
        TESTS.put("a deadline of communicate holds for the whole, however often something comes", (engine, dir) -> {
            Container box = engine.containers().create(shell("while :; do echo .; sleep 0.05; done"));
            try (Session session = box.startAttached()) {
                CompletableFuture<Output> all = session.within(Duration.ofMillis(500)).async(Session::communicate);
                Throwable thrown = raises(java.util.concurrent.ExecutionException.class, () -> all.get(SECONDS, TimeUnit.SECONDS)).getCause();
                same(CoracleException.Timeout.class, thrown.getClass());
            }
        });
        TESTS.put("an input that gives nothing more is not waited for", (engine, dir) -> {
            Container box = engine.containers().create(shell("echo gone; exit 3"));
            CountDownLatch never = new CountDownLatch(1);
            InputStream silent = new InputStream() {
                @Override
                public int read() throws IOException {
                    try {
                        never.await();
                    } catch (InterruptedException interrupted) {
                        throw new InterruptedIOException();
                    }
                    return -1;
                }
            };
            try (Session session = box.startAttached()) {
                Output output = session.communicate(silent);
                same(List.of(3, "gone\n"), List.of(output.code(), output.text()));
            } finally {
                never.countDown();
            }
        });
    }

    private static void processes() {
        TESTS.put("a terminal, an exec, samples, a run", (engine, dir) -> {
            Container tty = engine.containers().create(Document.of("Image", "busybox", "Cmd", List.of("stty", "size"), "Tty", true,
                    "HostConfig", Map.of("NetworkMode", "none")));
            try (Session session = tty.startAttached(ProcessIo.terminal(11, 22))) {
                same("11 22\r\n", session.communicate().text());
            }
            Container box = running(engine);
            Output output = box.run("sh", "-c", "echo o; echo e >&2; exit 3");
            same(List.of(3, "o\n", "e\n"), List.of(output.code(), output.text(), output.errorText()));
            try (Records<Document> samples = box.samples()) {
                for (Document sample : samples) {
                    same(true, sample.number("pids_stats.current") > 0);
                    break;
                }
            }
        });
        TESTS.put("descriptors of the caller's are a process's streams", (engine, dir) -> {
            Container box = engine.containers().create(shell("cat; echo end"));
            Path in = Files.writeString(dir.resolve("in"), "from a file\n");
            try (Descriptor stdin = new Descriptor(Source.open(in, Descriptor.O_RDONLY));
                    Session session = box.startAttached(new ProcessIo(stdin, null, null, 0, 0, false))) {
                same("from a file\nend\n", session.communicate().text());
            }
        });
    }

    private static void connections() {
        TESTS.put("requests over a private connection: bodies in pieces, and a stream in both directions", (engine, dir) -> {
            try (Connection connection = engine.connect();
                    Response answer = connection.request("POST", "/v1.24/images/load", Map.of("Content-Type", "application/x-tar"), Files.newInputStream(archive()))) {
                same(200, answer.status());
                same(true, answer.text().contains("Loaded image"));
            }
            Container box = engine.containers().create(shell("cat; exit 2"));
            try (Connection connection = engine.connect();
                    Response answer = connection.request("POST", "/v1.24/containers/" + box.id() + "/attach?stream=1&stdin=1&stdout=1",
                            Map.of("Connection", "Upgrade", "Upgrade", "tcp"), null)) {
                same(101, answer.status());
                box.start();
                connection.output().write("there and back\n".getBytes(StandardCharsets.UTF_8));
                byte[] frame = answer.body().readNBytes(8 + 15);
                same("there and back\n", new String(frame, 8, 15, StandardCharsets.UTF_8));
            }
            try (Connection connection = engine.connect(); Response answer = connection.request("GET", "/v1.24/containers/nobody/json", Map.of(), null)) {
                same(404, answer.status());
            }
            raises(IOException.class, () -> engine.connect().request("GET", "/_ping\r\nX: y", Map.of(), null));
        });
    }

    private static void callbacks() {
        TESTS.put("the caller's own exceptions come back as they are", (engine, dir) -> {
            IllegalStateException own = new IllegalStateException("own");
            same(own, raises(IllegalStateException.class, () -> engine.images().onProgress(record -> {
                throw own;
            }).load(archive())));
            AssertionError error = new AssertionError("an Error");
            same(error, raises(AssertionError.class, () -> engine.images().onProgress(record -> {
                throw error;
            }).load(archive())));
            IOException checked = new IOException("of a stream");
            InputStream broken = new InputStream() {
                @Override
                public int read() throws IOException {
                    throw checked;
                }
            };
            same(checked, raises(java.io.UncheckedIOException.class, () -> engine.images().load(broken)).getCause());
            InputStream generous = new InputStream() {
                @Override
                public int read() {
                    return 'x';
                }

                @Override
                public int read(byte[] to, int offset, int count) {
                    return count + 1;
                }
            };
            raises(java.io.UncheckedIOException.class, () -> engine.images().load(generous));
        });
        TESTS.put("a listener may call the engine, and gets the records on the calling thread", (engine, dir) -> {
            List<Progress> records = new ArrayList<>();
            Thread caller = Thread.currentThread();
            engine.images().remove("busybox");
            engine.images().onProgress(record -> {
                same(caller, Thread.currentThread());
                engine.containers().list();
                records.add(record);
            }).load(Files.newInputStream(archive()));
            same(false, records.isEmpty());
        });
        TESTS.put("a log sink that throws ends nothing, and one that was replaced is let go", (engine, dir) -> {
            List<String> told = java.util.Collections.synchronizedList(new ArrayList<>());
            Coracle.setLog(LogLevel.INFO, (level, target, message) -> {
                told.add(message);
                throw new IllegalStateException("a sink");
            });
            running(engine);
            int kept = Callbacks.kept();
            Coracle.setLog(LogLevel.INFO, null);
            soon("the end of the sink", () -> Callbacks.kept() < kept);
            same(false, told.isEmpty());
        });
    }

    private static void leaks() {
        TESTS.put("lives of containers leave no descriptor, no handle, no thread and no memory", (engine, dir) -> {
            Try life = () -> {
                Container box = engine.containers().create(shell("cat; exit 5"));
                try (Session session = box.startAttached()) {
                    same("in", session.communicate("in").text());
                }
                raises(CoracleException.Timeout.class, () -> running(engine).within(Duration.ZERO).waitFor());
                try (Records<LogLine> logs = box.logs()) {
                    same("in", logs.next().text());
                }
                raises(CoracleException.class, () -> engine.images().load(new ByteArrayInputStream(new byte[1024])));
                for (Document one : engine.containers().list(Map.of("all", true))) {
                    engine.container(one.text("Id")).remove(Remove.FORCE);
                }
            };
            for (int at = 0; at < 5; at++) {
                life.run();
            }
            // First the memory: at its first read of a file by a channel the JVM opens a socket, which it keeps.
            long memory = resident();
            int files = descriptors();
            int kept = Callbacks.kept();
            for (int at = 0; at < LIVES; at++) {
                life.run();
            }
            soon("the end of descriptors", () -> descriptors() <= files);
            same(true, Callbacks.kept() <= kept);
            // The heap has a bound of its own: this one is for memory of C, and leaves room for what the JVM compiles meanwhile.
            long grown = resident() - memory;
            System.out.println(LIVES + " lives: memory grew by " + grown + " bytes");
            if (grown > (96L << 20) + LIVES * 4096L) {
                throw new AssertionError("memory grew by " + grown + " bytes");
            }
        });
    }

    private static long resident() throws IOException {
        System.gc();
        return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
    }

    public static void main(String[] arguments) throws Exception {
        String words = arguments.length == 0 ? "" : arguments[0];
        int passed = 0;
        int failed = 0;
        for (Map.Entry<String, Test> one : TESTS.entrySet()) {
            if (!one.getKey().contains(words)) {
                continue;
            }
            Path dir = Files.createTempDirectory("own-");
            try (Engine engine = Scenarios.open(dir)) {
                engine.images().load(archive());
                try {
                    one.getValue().run(engine, dir);
                    passed++;
                } catch (Throwable thrown) {
                    failed++;
                    System.out.println("failed: " + one.getKey());
                    thrown.printStackTrace(System.out);
                } finally {
                    for (Document each : engine.containers().list(Map.of("all", true))) {
                        engine.container(each.text("Id")).remove(Remove.FORCE);
                    }
                }
            }
            Scenarios.removeTree(dir);
        }
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed != 0 || passed == 0 ? 1 : 0);
    }
}
