package dev.coracle;

import com.sun.jna.Callback;
import com.sun.jna.CallbackReference;
import com.sun.jna.LastErrorException;
import com.sun.jna.Native;
import com.sun.jna.NativeLibrary;
import com.sun.jna.Pointer;

/** The layer by JNA. */
final class JnaLayer implements Layer {
    private final JnaCalls calls;
    private final JnaLibc libc = new JnaLibc();
    private final Functions functions;

    /** C has the addresses of these for ever. */
    private final Callback[] kept;

    /** Reads an archive. */
    interface Read extends Callback {
        long invoke(long user, long room, long count);
    }

    /** Takes a record of progress. */
    interface Progress extends Callback {
        int invoke(long user, long record);
    }

    /** Takes a message. */
    interface Log extends Callback {
        void invoke(long user, int level, long target, long message);
    }

    /** Takes the end of a user. */
    interface Drop extends Callback {
        void invoke(long user);
    }

    JnaLayer(String library) {
        calls = new JnaCalls(library);
        Read read = (user, room, count) -> Callbacks.read(this, user, room, count);
        Progress progress = (user, record) -> Callbacks.progress(this, user, record);
        Log log = (user, level, target, message) -> Callbacks.log(this, user, level, target, message);
        Drop drop = Callbacks::drop;
        kept = new Callback[] {read, progress, log, drop};
        long readFd = Pointer.nativeValue(NativeLibrary.getInstance(library).getGlobalVariableAddress("coracle_read_fd"));
        functions = new Functions(address(read), readFd, address(progress), address(log), address(drop));
    }

    private static long address(Callback callback) {
        return Pointer.nativeValue(CallbackReference.getFunctionPointer(callback));
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
        long at = Native.malloc(size);
        if (at == 0) {
            throw new OutOfMemoryError("malloc of " + size + " bytes");
        }
        new Pointer(at).clear(size);
        return at;
    }

    @Override
    public void free(long at) {
        Native.free(at);
    }

    @Override
    public void put(long at, byte[] from, int offset, int count) {
        new Pointer(at).write(0, from, offset, count);
    }

    @Override
    public void get(long at, byte[] to, int offset, int count) {
        new Pointer(at).read(0, to, offset, count);
    }

    @Override
    public long word(long at) {
        return new Pointer(at).getLong(0);
    }

    @Override
    public void word(long at, long value) {
        new Pointer(at).setLong(0, value);
    }

    @Override
    public int number(long at) {
        return new Pointer(at).getInt(0);
    }

    @Override
    public void number(long at, int value) {
        new Pointer(at).setInt(0, value);
    }

    @Override
    public short half(long at) {
        return new Pointer(at).getShort(0);
    }

    @Override
    public void half(long at, short value) {
        new Pointer(at).setShort(0, value);
    }

    @Override
    public String text(long at) {
        return at == 0 ? null : new Pointer(at).getString(0, "UTF-8");
    }

    /** The C library by JNA. */
    private static final class JnaLibc implements Libc {
        @Override
        public int open(String path, int flags) {
            return (int) result(() -> Functions.open(Native.toByteArray(path, "UTF-8"), flags));
        }

        @Override
        public int close(int fd) {
            return (int) result(() -> Functions.close(fd));
        }

        @Override
        public int duplicate(int fd) {
            return (int) result(() -> Functions.fcntl(fd, Descriptor.F_DUPFD_CLOEXEC, 0));
        }

        @Override
        public int poll(long entries, long count, int ms) {
            return (int) result(() -> Functions.poll(entries, count, ms));
        }

        @Override
        public int eventfd() {
            return (int) result(() -> Functions.eventfd(0, Descriptor.EFD_CLOEXEC | Descriptor.EFD_NONBLOCK));
        }

        @Override
        public long write(int fd, long at, long count) {
            return result(() -> Functions.write(fd, at, count));
        }

        @Override
        public long send(int fd, long at, long count) {
            return result(() -> Functions.send(fd, at, count, Descriptor.MSG_NOSIGNAL | Descriptor.MSG_DONTWAIT));
        }

        @Override
        public int shutdown(int fd) {
            return (int) result(() -> Functions.shutdown(fd, Descriptor.SHUT_WR));
        }

        private static long result(java.util.function.LongSupplier call) {
            try {
                return call.getAsLong();
            } catch (LastErrorException failed) {
                return -failed.getErrorCode();
            }
        }

        /** Those of the C library; JNA throws their errno. */
        private static final class Functions {
            static {
                Native.register(Functions.class, NativeLibrary.getInstance("c"));
            }

            private Functions() {}

            static native int open(byte[] path, int flags) throws LastErrorException;

            static native int close(int fd) throws LastErrorException;

            static native int fcntl(int fd, int command, int argument) throws LastErrorException;

            static native int poll(long entries, long count, int ms) throws LastErrorException;

            static native int eventfd(int value, int flags) throws LastErrorException;

            static native long write(int fd, long at, long count) throws LastErrorException;

            static native int shutdown(int fd, int how) throws LastErrorException;

            static native long send(int fd, long at, long count, int flags) throws LastErrorException;
        }
    }
}
