package dev.coracle;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.ReentrantLock;

/** A descriptor that the library gave. It ends by close, or when it is forgotten. */
public final class Descriptor implements AutoCloseable {
    // Of Linux.
    static final int O_RDONLY = 0;
    static final int O_NONBLOCK = 04000;
    static final int O_CLOEXEC = 02000000;
    static final int F_DUPFD_CLOEXEC = 1030;
    static final int EFD_CLOEXEC = 02000000;
    static final int EFD_NONBLOCK = 04000;
    static final int MSG_DONTWAIT = 0x40;
    static final int MSG_NOSIGNAL = 0x4000;
    static final int SHUT_WR = 1;
    private static final int EINTR = 4;
    private static final int EAGAIN = 11;

    private final int fd;
    private final AtomicBoolean closed = new AtomicBoolean();
    private final java.lang.ref.Cleaner.Cleanable end;
    private final ReentrantLock reading = new ReentrantLock();
    private final ReentrantLock writing = new ReentrantLock();

    Descriptor(int fd) {
        this.fd = fd;
        Layer layer = Layer.layer();
        end = Handle.CLEANER.register(this, () -> layer.libc().close(fd));
    }

    /** The number, valid until close: for other code of C in this program. */
    public int number() {
        if (closed.get()) {
            throw CoracleException.of(Code.MISUSE, "the descriptor is closed");
        }
        return fd;
    }

    /** Whether it is readable now: of a process's descriptor, whether the process has ended. */
    public boolean isReadable() {
        reading.lock();
        try {
            return Poller.isReady(number(), Poller.READ);
        } finally {
            reading.unlock();
            java.lang.ref.Reference.reachabilityFence(this);
        }
    }

    /** Waits until it is readable. */
    public void await() {
        try (Waiting waiting = new Waiting(Bounds.NONE)) {
            while (!Poller.isReady(number(), Poller.READ)) {
                waiting.until(number(), Poller.READ);
            }
        } finally {
            java.lang.ref.Reference.reachabilityFence(this);
        }
    }

    /** Reads from it; closing the stream closes the descriptor. */
    public InputStream input() {
        return input(Bounds.NONE);
    }

    InputStream input(Bounds bounds) {
        return new InputStream() {
            @Override
            public int read() throws IOException {
                byte[] one = new byte[1];
                return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
            }

            @Override
            public int read(byte[] to, int offset, int count) throws IOException {
                java.util.Objects.checkFromIndexSize(offset, count, to.length);
                return count == 0 ? 0 : Descriptor.this.read(to, offset, count, bounds);
            }

            @Override
            public void close() {
                Descriptor.this.close();
            }
        };
    }

    /** Writes to it; closing the stream closes the descriptor. */
    public OutputStream output() {
        return new OutputStream() {
            @Override
            public void write(int one) throws IOException {
                write(new byte[] {(byte) one}, 0, 1);
            }

            @Override
            public void write(byte[] from, int offset, int count) throws IOException {
                java.util.Objects.checkFromIndexSize(offset, count, from.length);
                Descriptor.this.write(from, offset, count);
            }

            @Override
            public void close() {
                Descriptor.this.close();
            }
        };
    }

    private void open() throws IOException {
        if (closed.get()) {
            throw new IOException("the stream is closed");
        }
    }

    int read(byte[] to, int offset, int count, Bounds bounds) throws IOException {
        Layer layer = Layer.layer();
        reading.lock();
        try (Waiting waiting = new Waiting(bounds)) {
            long room = layer.allocate(Math.min(count, 64 << 10));
            try {
                for (;;) {
                    open();
                    waiting.check();
                    if (Poller.isReady(fd, Poller.READ)) {
                        long got = layer.calls().coracle_read_fd(fd, room, Math.min(count, 64 << 10));
                        if (got >= 0) {
                            layer.get(room, to, offset, (int) got);
                            return got == 0 ? -1 : (int) got;
                        }
                        if (got != -EINTR && got != -EAGAIN) {
                            throw new IOException("a read failed: errno " + -got);
                        }
                    } else {
                        waiting.until(fd, Poller.READ);
                    }
                }
            } finally {
                layer.free(room);
            }
        } catch (CoracleException ended) {
            throw ofStream(ended);
        } finally {
            reading.unlock();
            java.lang.ref.Reference.reachabilityFence(this);
        }
    }

    void write(byte[] from, int offset, int count) throws IOException {
        Layer layer = Layer.layer();
        writing.lock();
        try (Waiting waiting = new Waiting(Bounds.NONE)) {
            long room = layer.allocate(Math.max(count, 1));
            try {
                layer.put(room, from, offset, count);
                for (long done = 0; done < count;) {
                    open();
                    long sent = layer.libc().send(fd, room + done, count - done);
                    if (sent >= 0) {
                        done += sent;
                    } else if (sent == -EAGAIN) {
                        waiting.until(fd, Poller.WRITE);
                    } else if (sent != -EINTR) {
                        throw new IOException("a write failed: errno " + -sent);
                    }
                }
            } finally {
                layer.free(room);
            }
        } catch (CoracleException ended) {
            throw ofStream(ended);
        } finally {
            writing.unlock();
            java.lang.ref.Reference.reachabilityFence(this);
        }
    }

    /** Ends the bytes to the other side, which may still send its own. */
    void endOutput() throws IOException {
        writing.lock();
        try {
            open();
            int failed = Layer.layer().libc().shutdown(fd);
            if (failed < 0) {
                throw new IOException("the end cannot be sent: errno " + -failed);
            }
        } finally {
            writing.unlock();
            java.lang.ref.Reference.reachabilityFence(this);
        }
    }

    /** An error of the engine in the form of streams. */
    static IOException ofStream(CoracleException error) {
        IOException made = error instanceof CoracleException.Cancelled || error instanceof CoracleException.Timeout
                ? new InterruptedIOException(error.getMessage())
                : new IOException(error.getMessage());
        made.initCause(error);
        return made;
    }

    @Override
    public void close() {
        if (!closed.compareAndSet(false, true)) {
            return;
        }
        Poller.poller().forget(fd);
        // Readers and writers see that it is closed, and leave, before its number goes to another file.
        reading.lock();
        writing.lock();
        try {
            end.clean();
        } finally {
            writing.unlock();
            reading.unlock();
        }
    }
}
