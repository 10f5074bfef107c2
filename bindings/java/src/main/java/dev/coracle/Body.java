package dev.coracle;

import java.io.IOException;
import java.io.InputStream;
import java.util.Objects;

/** Bytes that come out of the engine: an archive, the body of an answer. To be closed. */
public final class Body extends InputStream {
    private static final int ROOM = 64 << 10;

    private final Handle handle;
    private final Bounds bounds;

    Body(long pointer, Bounds bounds) {
        handle = Records.handle(pointer);
        this.bounds = bounds;
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] to, int offset, int count) throws IOException {
        Objects.checkFromIndexSize(offset, count, to.length);
        if (count == 0) {
            return 0;
        }
        try (Call call = new Call(bounds)) {
            int got = (int) Raw.streamRead(call, handle, Math.min(count, ROOM));
            if (got == 0) {
                return -1;
            }
            call.bytes(to, offset, got);
            return got;
        } catch (CoracleException failed) {
            throw Descriptor.ofStream(failed);
        }
    }

    @Override
    public void close() {
        handle.close(true);
    }
}
