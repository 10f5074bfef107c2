package dev.coracle;

import java.lang.foreign.Arena;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.Files;
import java.nio.file.Path;

/** The layer by java.lang.foreign. */
final class FfmLayer implements Layer {
    /** All of memory: addresses of C are offsets in it. */
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    private static final ValueLayout.OfLong WORD = ValueLayout.JAVA_LONG_UNALIGNED;
    private static final ValueLayout.OfInt NUMBER = ValueLayout.JAVA_INT_UNALIGNED;
    private static final ValueLayout.OfShort HALF = ValueLayout.JAVA_SHORT_UNALIGNED;

    private final FfmCalls calls;
    private final FfmLibc libc = new FfmLibc();
    private final Functions functions;

    FfmLayer(String library) throws ReflectiveOperationException {
        // A path as it is; a name by the system's search.
        SymbolLookup found = library.contains("/")
                ? SymbolLookup.libraryLookup(existing(library), Arena.global())
                : SymbolLookup.libraryLookup(library, Arena.global());
        calls = new FfmCalls(found);
        functions = new Functions(
                upcall("read", "jjjj"),
                FfmLinks.symbol(found, "coracle_read_fd").address(),
                upcall("progress", "ijj"),
                upcall("log", "vjijj"),
                upcall("drop", "vj"));
    }

    private static Path existing(String library) {
        Path path = Path.of(library);
        if (!Files.exists(path)) {
            throw new IllegalArgumentException("no such file");
        }
        return path.toAbsolutePath();
    }

    /** The address of a function of C that calls the method of that name of Callbacks; it lives as long as the program. */
    private long upcall(String name, String shape) throws ReflectiveOperationException {
        MethodType taken = FfmLinks.descriptor(shape).toMethodType();
        MethodHandle method = name.equals("drop")
                ? MethodHandles.lookup().findStatic(Callbacks.class, name, taken)
                : MethodHandles.lookup().findStatic(Callbacks.class, name, taken.insertParameterTypes(0, Layer.class)).bindTo(this);
        return Linker.nativeLinker().upcallStub(method, FfmLinks.descriptor(shape), Arena.global()).address();
    }

    @Override
    public Calls calls() {
        return calls;
    }

    @Override
    public Libc libc() {
        return libc;
    }

    @Override
    public Functions functions() {
        return functions;
    }

    @Override
    public long allocate(long size) {
        long at = libc.calloc(1, size);
        if (at == 0) {
            throw new OutOfMemoryError("calloc of " + size + " bytes");
        }
        return at;
    }

    @Override
    public void free(long at) {
        libc.release(at);
    }

    @Override
    public void put(long at, byte[] from, int offset, int count) {
        MemorySegment.copy(from, offset, ALL, ValueLayout.JAVA_BYTE, at, count);
    }

    @Override
    public void get(long at, byte[] to, int offset, int count) {
        MemorySegment.copy(ALL, ValueLayout.JAVA_BYTE, at, to, offset, count);
    }

    @Override
    public long word(long at) {
        return ALL.get(WORD, at);
    }

    @Override
    public void word(long at, long value) {
        ALL.set(WORD, at, value);
    }

    @Override
    public int number(long at) {
        return ALL.get(NUMBER, at);
    }

    @Override
    public void number(long at, int value) {
        ALL.set(NUMBER, at, value);
    }

    @Override
    public short half(long at) {
        return ALL.get(HALF, at);
    }

    @Override
    public void half(long at, short value) {
        ALL.set(HALF, at, value);
    }

    @Override
    public String text(long at) {
        return at == 0 ? null : ALL.getString(at);
    }

    /** The C library, whose errno comes with each call. */
    private static final class FfmLibc extends FfmLinks implements Libc {
        private static final Linker.Option ERRNO = Linker.Option.captureCallState("errno");
        private static final long STATE = Linker.Option.captureStateLayout().byteSize();
        private final SymbolLookup found = Linker.nativeLinker().defaultLookup();
        private final MethodHandle open = errno("open", "iji");
        private final MethodHandle close = errno("close", "ii");
        private final MethodHandle fcntl = errno("fcntl", "iiii");
        private final MethodHandle poll = errno("poll", "ijji");
        private final MethodHandle eventfd = errno("eventfd", "iii");
        private final MethodHandle write = errno("write", "jijj");
        private final MethodHandle send = errno("send", "jijji");
        private final MethodHandle shutdown = errno("shutdown", "iii");

        FfmLibc() {
            super(Linker.nativeLinker().defaultLookup(), 2);
        }

        private MethodHandle errno(String name, String shape) {
            return Linker.nativeLinker().downcallHandle(symbol(found, name), descriptor(shape), ERRNO);
        }

        long calloc(long count, long size) {
            try {
                return (long) link(0, "calloc", "jjj").invokeExact(count, size);
            } catch (Throwable thrown) {
                throw failed(thrown);
            }
        }

        void release(long at) {
            try {
                link(1, "free", "vj").invokeExact(at);
            } catch (Throwable thrown) {
                throw failed(thrown);
            }
        }

        /** A call with the memory that its errno comes in. */
        private interface Work {
            long call(MemorySegment state) throws Throwable;
        }

        private static long result(Work work) {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment state = arena.allocate(STATE);
                long answer = work.call(state);
                // The state begins with the one number that was asked for.
                return answer < 0 ? -state.get(NUMBER, 0) : answer;
            } catch (Throwable thrown) {
                throw failed(thrown);
            }
        }

        @Override
        public int open(String path, int flags) {
            return (int) result(state -> {
                try (Arena arena = Arena.ofConfined()) {
                    return (int) open.invokeExact(state, arena.allocateFrom(path).address(), flags);
                }
            });
        }

        @Override
        public int close(int fd) {
            return (int) result(state -> (int) close.invokeExact(state, fd));
        }

        @Override
        public int duplicate(int fd) {
            return (int) result(state -> (int) fcntl.invokeExact(state, fd, Descriptor.F_DUPFD_CLOEXEC, 0));
        }

        @Override
        public int poll(long entries, long count, int ms) {
            return (int) result(state -> (int) poll.invokeExact(state, entries, count, ms));
        }

        @Override
        public int eventfd() {
            return (int) result(state -> (int) eventfd.invokeExact(state, 0, Descriptor.EFD_CLOEXEC | Descriptor.EFD_NONBLOCK));
        }

        @Override
        public long write(int fd, long at, long count) {
            return result(state -> (long) write.invokeExact(state, fd, at, count));
        }

        @Override
        public long send(int fd, long at, long count) {
            return result(state -> (long) send.invokeExact(state, fd, at, count, Descriptor.MSG_NOSIGNAL | Descriptor.MSG_DONTWAIT));
        }

        @Override
        public int shutdown(int fd) {
            return (int) result(state -> (int) shutdown.invokeExact(state, fd, Descriptor.SHUT_WR));
        }
    }
}
