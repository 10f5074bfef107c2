package dev.coracle;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/** The archive that a call reads: a stream of the caller's, or a file, which the library reads itself. */
final class Source implements AutoCloseable {
    private final InputStream stream;
    private final int fd;
    private long user;

    /** The throwable of the stream. */
    volatile Throwable thrown;

    private Source(InputStream stream, int fd) {
        this.stream = stream;
        this.fd = fd;
    }

    static Source of(InputStream stream) {
        return stream == null ? null : new Source(stream, -1);
    }

    static Source of(Path path) throws NoSuchFileException {
        return new Source(null, open(path, Descriptor.O_RDONLY));
    }

    /** Opens a file by the C library. */
    static int open(Path path, int flags) throws NoSuchFileException {
        int fd = Layer.layer().libc().open(path.toString(), flags | Descriptor.O_CLOEXEC);
        if (fd >= 0) {
            return fd;
        }
        if (!Files.exists(path)) {
            throw new NoSuchFileException(path.toString());
        }
        throw new CoracleException.Facts(Code.IO, 500, -fd, "java", path + ": cannot be opened: errno " + -fd, Document.EMPTY, null).exception();
    }

    long function(Layer.Functions functions) {
        return fd >= 0 ? functions.readFd() : functions.read();
    }

    long user() {
        if (fd >= 0) {
            return fd;
        }
        if (user == 0) {
            user = Callbacks.keep(this);
        }
        return user;
    }

    /** Fills memory of C. */
    long read(Layer layer, long room, long count) {
        byte[] piece = new byte[(int) Math.min(count, 256 << 10)];
        try {
            int got = stream.read(piece, 0, piece.length);
            if (got > piece.length) {
                throw new IOException("a stream gave " + got + " bytes where " + piece.length + " were asked for");
            }
            if (got <= 0) {
                return 0;
            }
            layer.put(room, piece, 0, got);
            return got;
        } catch (Throwable own) {
            thrown = own;
            return -1;
        }
    }

    @Override
    public void close() {
        if (fd >= 0) {
            Layer.layer().libc().close(fd);
        }
        if (user != 0) {
            Callbacks.forget(user);
        }
    }
}
