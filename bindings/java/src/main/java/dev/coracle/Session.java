package dev.coracle;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.EnumMap;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * An attached process. Closing it detaches: the process runs on.
 *
 * <p>Either the streams stdout() and stderr() are read, or output(): a stream that was asked for is no longer the session's.
 */
public final class Session extends Scoped<Session> implements AutoCloseable {
    private static final int EPIPE = 32;
    private static final int ROOM = 64 << 10;

    private final Handle handle;
    private final Map<Channel, Descriptor> taken;

    Session(Handle handle, Bounds bounds) {
        this(handle, new EnumMap<>(Channel.class), bounds);
    }

    private Session(Handle handle, Map<Channel, Descriptor> taken, Bounds bounds) {
        super(bounds);
        this.handle = handle;
        this.taken = taken;
    }

    static Handle handle(long pointer) {
        Calls calls = Layer.layer().calls();
        return new Handle("session", pointer, calls::coracle_session_free);
    }

    @Override
    Session with(Bounds other) {
        return new Session(handle, taken, other);
    }

    /** Whether the session has a stream that was not asked for as a stream of Java. */
    public boolean has(Channel channel) {
        return call(call -> Raw.sessionFd(call, handle, channel.number) >= 0);
    }

    /** The process's stdin. Closing it ends the process's input; nothing is buffered. */
    public OutputStream stdin() {
        return new Input();
    }

    /** Writes to the process, all of it. */
    private final class Input extends OutputStream {
        @Override
        public void write(int one) throws IOException {
            write(new byte[] {(byte) one}, 0, 1);
        }

        @Override
        public void write(byte[] from, int offset, int count) throws IOException {
            try {
                Session.this.write(java.util.Arrays.copyOfRange(from, offset, offset + count));
            } catch (CoracleException failed) {
                throw Descriptor.ofStream(failed);
            }
        }

        @Override
        public void close() throws IOException {
            try {
                closeStdin();
            } catch (CoracleException failed) {
                throw Descriptor.ofStream(failed);
            }
        }
    }

    /** The process's stdout, of a terminal all output; without one: a stream that is at its end. */
    public InputStream stdout() {
        return stream(Channel.STDOUT);
    }

    /** The process's stderr; without one: a stream that is at its end. */
    public InputStream stderr() {
        return stream(Channel.STDERR);
    }

    private InputStream stream(Channel channel) {
        Descriptor found = descriptor(channel);
        return found == null ? InputStream.nullInputStream() : found.input(bounds);
    }

    /** The descriptor of a stream, which the caller then has, and closes; null: the session does not have it any more. */
    public Descriptor take(Channel channel) {
        synchronized (taken) {
            Descriptor found = descriptor(channel);
            taken.put(channel, null);
            return found;
        }
    }

    private Descriptor descriptor(Channel channel) {
        synchronized (taken) {
            if (!taken.containsKey(channel)) {
                int fd = (int) (long) call(call -> Raw.sessionTakeFd(call, handle, channel.number));
                if (fd < 0 && fd != Raw.ENOT_FOUND) {
                    throw CoracleException.of(Code.of(fd), "the stream cannot be taken: " + Coracle.statusName(fd));
                }
                taken.put(channel, fd < 0 ? null : new Descriptor(fd));
            }
            return taken.get(channel);
        }
    }

    /**
     * A piece of a process's output.
     *
     * @param channel stdout or stderr
     * @param data the bytes
     */
    public record Piece(Channel channel, byte[] data) {
        /** The bytes as text. */
        public String text() {
            return new String(data, StandardCharsets.UTF_8);
        }
    }

    /** The next output of the process, whichever stream has some; null: both have ended. */
    public Piece read() {
        return call(call -> {
            int count = (int) Raw.sessionRead(call, handle, ROOM);
            return count == 0 ? null : new Piece(Channel.of(call.number()), call.bytes(count));
        });
    }

    /** Pieces of either output as they come, until both have ended. */
    public Iterable<Piece> output() {
        return () -> new Ahead<>(this::read);
    }

    /** Writes to the process's stdin, all of it. */
    public void write(byte[] data) {
        byte[] left = data;
        do {
            byte[] now = left;
            int count = (int) does(call -> Raw.sessionWrite(call, handle, now));
            left = count == left.length ? null : java.util.Arrays.copyOfRange(left, count, left.length);
        } while (left != null);
    }

    /** Writes a text to the process's stdin. */
    public void write(String text) {
        write(text.getBytes(StandardCharsets.UTF_8));
    }

    /** Ends the process's stdin: the process reads the bytes that were written, then the end. */
    public void closeStdin() {
        does(call -> Raw.sessionCloseStdin(call, handle));
    }

    /** Everything that the process gives, without input. */
    public Output communicate() {
        return communicate(InputStream.nullInputStream());
    }

    /** Everything that the process gives for a text. */
    public Output communicate(String input) {
        return communicate(new ByteArrayInputStream(input.getBytes(StandardCharsets.UTF_8)));
    }

    /**
     * Copies input to the process's stdin and ends it, takes both outputs to their ends, and waits for the process, all within one
     * deadline. An input that gives nothing more is not waited for once the process has ended: a read of it may outlast the call.
     */
    public Output communicate(InputStream input) {
        return with(bounds.together()).exchange(input);
    }

    private Output exchange(InputStream input) {
        boolean writes = has(Channel.STDIN);
        InputStream out = stdout();
        InputStream problems = stderr();
        CompletableFuture<Void> fed = writes ? CompletableFuture.runAsync(() -> feed(input), Threads.POOL) : CompletableFuture.completedFuture(null);
        CompletableFuture<byte[]> errors = CompletableFuture.supplyAsync(() -> all(problems), Threads.POOL);
        byte[] stdout = all(out);
        byte[] stderr = joined(errors);
        int code = waitFor();
        // Nobody takes more input.
        if (fed.isCompletedExceptionally()) {
            joined(fed);
        }
        return new Output(code, stdout, stderr);
    }

    private void feed(InputStream input) {
        byte[] piece = new byte[ROOM];
        try {
            for (int count; (count = input.read(piece)) >= 0;) {
                write(java.util.Arrays.copyOf(piece, count));
            }
            closeStdin();
        } catch (IOException failed) {
            giveUpInput();
            throw new UncheckedIOException(failed);
        } catch (CoracleException failed) {
            // A process may end without reading all of it, and its session may be closed then.
            if (failed.errno() != EPIPE && !handle.isClosed()) {
                throw failed;
            }
        }
    }

    /** Ends the input that failed: the process does not wait for the rest of it. */
    private void giveUpInput() {
        try {
            closeStdin();
        } catch (CoracleException closed) {
            // The caller gets the failure of the input.
        }
    }

    private static byte[] all(InputStream from) {
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        try {
            from.transferTo(made);
        } catch (IOException failed) {
            if (failed.getCause() instanceof CoracleException error) {
                throw error;
            }
            throw new UncheckedIOException(failed);
        }
        return made.toByteArray();
    }

    private static <T> T joined(CompletableFuture<T> job) {
        try {
            return job.join();
        } catch (java.util.concurrent.CompletionException failed) {
            if (failed.getCause() instanceof RuntimeException error) {
                throw error;
            }
            throw failed;
        }
    }

    /** Sets the size of the process's terminal. */
    public void resize(int rows, int cols) {
        ProcessIo size = ProcessIo.terminal(rows, cols);
        does(call -> Raw.sessionResize(call, handle, (short) size.rows(), (short) size.cols()));
    }

    /** Waits for the process's end: its exit code, 128 + n if signal n ended it. */
    public int waitFor() {
        return await(onExit());
    }

    /** The exit code as a future, for which no thread waits. */
    public CompletableFuture<Integer> onExit() {
        return begin(call -> Raw.sessionWait(call, handle));
    }

    /** Detaches: the process runs on. */
    @Override
    public void close() {
        handle.close(true);
        synchronized (taken) {
            for (Descriptor one : taken.values()) {
                if (one != null) {
                    one.close();
                }
            }
        }
    }
}
