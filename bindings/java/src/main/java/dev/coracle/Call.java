package dev.coracle;

import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** The frame of one call: its operation, the memory of its arguments, and whatever it gives. */
final class Call implements AutoCloseable {
    // Places in the frame's own memory.
    private static final int ERROR = 0;
    private static final int ID = 8;
    private static final int JSON = 16;
    private static final int HANDLE = 24;
    private static final int NUMBER = 32;
    private static final int STRUCT = 40;
    private static final int SIZE = 96;

    // Sizes and places of the structs of coracle.h where a pointer has 64 bits.
    private static final int RESULT_SIZE = 48;
    private static final int FRAME_SIZE = 40;
    private static final int IO_SIZE = 32;
    private static final int OPTIONS_SIZE = 32;

    final Layer layer = Layer.layer();
    final Calls calls = layer.calls();
    private final Bounds bounds;
    private final boolean begins;
    private final long frame;
    private final List<Long> allocated = new ArrayList<>();
    private final List<Handle> used = new ArrayList<>();
    private Op op;
    private Source source;
    private long room;

    /** A call that its thread waits for. */
    Call(Bounds bounds) {
        this(bounds, false);
    }

    /** begins: the call is begun with CORACLE_OP_NONBLOCK. */
    Call(Bounds bounds, boolean begins) {
        this.bounds = bounds;
        this.begins = begins;
        frame = layer.allocate(SIZE);
        layer.number(frame + NUMBER, -1);
    }

    /** The operation, which then outlives the call. */
    Op takeOp() {
        Op taken = op;
        op = null;
        for (Handle handle : used) {
            handle.end(taken);
        }
        return taken;
    }

    @Override
    public void close() {
        if (op != null) {
            for (Handle handle : used) {
                handle.end(op);
            }
            op.end();
        }
        // The garbage collector ends forgotten handles, and none of a call that runs.
        for (Handle handle : used) {
            Reference.reachabilityFence(handle);
        }
        for (long at : allocated) {
            layer.free(at);
        }
        layer.free(frame);
    }

    // ---- arguments

    long of(Handle handle) {
        if (handle == null) {
            return 0;
        }
        long pointer = handle.pointer();
        used.add(handle);
        return pointer;
    }

    long op() {
        if (op == null) {
            try (Call making = new Call(Bounds.NONE)) {
                Raw.opNew(making, begins ? Raw.OP_NONBLOCK : 0);
                op = new Op(making.handle(), bounds, !begins);
            }
            for (Handle handle : used) {
                handle.begin(op);
            }
        }
        return op.pointer();
    }

    /** A text with a NUL at its end; 0 for null. */
    long text(String text) {
        if (text == null) {
            return 0;
        }
        if (text.indexOf(0) >= 0) {
            throw CoracleException.of(Code.INVALID, "a text has a NUL in it: \"" + text.replace("\0", "\\0") + "\"");
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        long at = memory(bytes.length + 1L);
        layer.put(at, bytes, 0, bytes.length);
        return at;
    }

    long bytes(byte[] bytes) {
        if (bytes == null) {
            return 0;
        }
        long at = memory(Math.max(bytes.length, 1));
        layer.put(at, bytes, 0, bytes.length);
        return at;
    }

    long numbers(int[] numbers) {
        long at = memory(Math.max(4L * count(numbers), 4));
        for (int i = 0; i < count(numbers); i++) {
            layer.number(at + 4L * i, numbers[i]);
        }
        return at;
    }

    static long count(byte[] bytes) {
        return bytes == null ? 0 : bytes.length;
    }

    static int count(int[] numbers) {
        return numbers == null ? 0 : numbers.length;
    }

    /** Room for bytes that the call gives. */
    long room(int count) {
        room = memory(Math.max(count, 1));
        return room;
    }

    long options(OpenOptions options) {
        if (options == null) {
            return 0;
        }
        long at = memory(OPTIONS_SIZE);
        layer.word(at, OPTIONS_SIZE);
        layer.word(at + 8, text(options.runDir()));
        layer.word(at + 16, text(Document.write(options.config())));
        layer.word(at + 24, options.flags());
        return at;
    }

    long io(ProcessIo io) {
        if (io == null) {
            return 0;
        }
        long at = memory(IO_SIZE);
        layer.word(at, IO_SIZE);
        layer.word(at + 8, io.direct() ? Raw.IO_DIRECT : 0);
        layer.number(at + 16, ProcessIo.number(io.stdin()));
        layer.number(at + 20, ProcessIo.number(io.stdout()));
        layer.number(at + 24, ProcessIo.number(io.stderr()));
        layer.half(at + 28, (short) io.rows());
        layer.half(at + 30, (short) io.cols());
        return at;
    }

    long reader(Source from) {
        source = from;
        return from == null ? 0 : from.function(layer.functions());
    }

    long user(Source from) {
        return from == null ? 0 : from.user();
    }

    private long memory(long size) {
        long at = layer.allocate(size);
        allocated.add(at);
        return at;
    }

    // ---- places for answers

    long error() {
        return frame + ERROR;
    }

    long outId() {
        return frame + ID;
    }

    long outJson() {
        return frame + JSON;
    }

    long outHandle() {
        return frame + HANDLE;
    }

    long outNumber() {
        return frame + NUMBER;
    }

    long frame() {
        layer.word(frame + STRUCT, FRAME_SIZE);
        return frame + STRUCT;
    }

    long result() {
        layer.word(frame + STRUCT, RESULT_SIZE);
        return frame + STRUCT;
    }

    // ---- answers

    /** The status, or the count; a failure is thrown. */
    long answered(long status) {
        if (status >= 0) {
            return status;
        }
        throw failure(status, layer.word(frame + ERROR));
    }

    /** A text that the library gave, and that is freed. */
    String id() {
        return taken(frame + ID);
    }

    String json() {
        return taken(frame + JSON);
    }

    /** A text that stays the library's. */
    String borrowedJson() {
        return layer.text(layer.word(frame + JSON));
    }

    long handle() {
        return layer.word(frame + HANDLE);
    }

    int number() {
        return layer.number(frame + NUMBER);
    }

    byte[] bytes(int count) {
        byte[] made = new byte[count];
        layer.get(room, made, 0, count);
        return made;
    }

    void bytes(byte[] to, int offset, int count) {
        layer.get(room, to, offset, count);
    }

    /** The code of a coracle_result, whose texts are freed. */
    int resultCode() {
        taken(frame + STRUCT + 16);
        taken(frame + STRUCT + 24);
        return layer.number(frame + STRUCT + 8);
    }

    int frameChannel() {
        return layer.number(frame + STRUCT + 8);
    }

    long frameNanos() {
        return layer.word(frame + STRUCT + 16);
    }

    byte[] frameBytes() {
        byte[] made = new byte[Math.toIntExact(layer.word(frame + STRUCT + 32))];
        if (made.length != 0) {
            layer.get(layer.word(frame + STRUCT + 24), made, 0, made.length);
        }
        return made;
    }

    private String taken(long place) {
        long at = layer.word(place);
        if (at == 0) {
            return null;
        }
        layer.word(place, 0);
        try {
            return layer.text(at);
        } finally {
            calls.coracle_free(at);
        }
    }

    /** The error of the call, or the one of the caller's own function that ended it. */
    private RuntimeException failure(long status, long error) {
        CoracleException.Facts facts = facts(layer, status, error);
        Throwable own = source != null && source.thrown != null ? source.thrown : op != null ? op.thrown : null;
        return own == null ? facts.exception() : own(facts, own);
    }

    /** Unchecked exceptions of the caller's own come as they are. */
    static RuntimeException own(CoracleException.Facts facts, Throwable own) {
        if (own instanceof InterruptedException) {
            return facts.because(Code.CANCELLED, own).exception();
        }
        if (own instanceof Error error) {
            throw error;
        }
        if (own instanceof java.io.IOException failed) {
            return new java.io.UncheckedIOException(failed);
        }
        return own instanceof RuntimeException thrown ? thrown : facts.because(Code.CALLBACK, own).exception();
    }

    private static CoracleException.Facts facts(Layer layer, long status, long error) {
        Calls calls = layer.calls();
        if (error == 0) {
            String name = layer.text(calls.coracle_status_name((int) status));
            return new CoracleException.Facts(Code.of(status), 500, 0, "", name, Document.EMPTY, null);
        }
        try {
            String detail = layer.text(calls.coracle_error_detail(error));
            return new CoracleException.Facts(
                    Code.of(calls.coracle_error_code(error)),
                    calls.coracle_error_http_status(error),
                    calls.coracle_error_errno(error),
                    layer.text(calls.coracle_error_area(error)),
                    layer.text(calls.coracle_error_message(error)),
                    Document.parse(detail),
                    null);
        } finally {
            calls.coracle_error_free(error);
        }
    }
}
