package dev.coracle;

/**
 * The way to the library and to the memory of C: the one interface below this binding. JNA implements it for Java 17, and
 * java.lang.foreign for Java 22 and later.
 */
interface Layer {
    /** The functions of the library. */
    Calls calls();

    /** The C library's functions. A failure is -errno. */
    Libc libc();

    /** Addresses of C functions that end in {@link Callbacks}. */
    Functions functions();

    /** Memory of C, filled with zeros. */
    long allocate(long size);

    void free(long at);

    void put(long at, byte[] from, int offset, int count);

    void get(long at, byte[] to, int offset, int count);

    long word(long at);

    void word(long at, long value);

    int number(long at);

    void number(long at, int value);

    short half(long at);

    void half(long at, short value);

    /** The text at an address, to its NUL; null for 0. */
    String text(long at);

    /** The C library's functions that descriptors need. */
    interface Libc {
        int open(String path, int flags);

        int close(int fd);

        int duplicate(int fd);

        int poll(long entries, long count, int ms);

        int eventfd();

        long write(int fd, long at, long count);

        /** Sends without SIGPIPE, and without waiting. */
        long send(int fd, long at, long count);

        /** Ends the bytes that a socket sends. */
        int shutdown(int fd);
    }

    /** Addresses of functions. */
    record Functions(long read, long readFd, long progress, long log, long drop) {}

    /** The layer of this process. */
    static Layer layer() {
        return Holder.LAYER;
    }

    /** Chooses the layer at its first use. */
    final class Holder {
        static final Layer LAYER = choose();

        private Holder() {}

        /** The property coracle.layer names one: jna or ffm. */
        private static Layer choose() {
            try (Library library = Library.find()) {
                return choose(library.name());
            }
        }

        private static Layer choose(String library) {
            String wanted = System.getProperty("coracle.layer", "");
            Throwable reason = null;
            if (Runtime.version().feature() >= 22 && !wanted.equals("jna")) {
                try {
                    Class<?> found = Class.forName("dev.coracle.FfmLayer", true, Layer.class.getClassLoader());
                    return (Layer) found.getDeclaredConstructor(String.class).newInstance(library);
                } catch (ClassNotFoundException absent) {
                    reason = absent;
                } catch (java.lang.reflect.InvocationTargetException failed) {
                    throw unusable(library, failed.getCause());
                } catch (ReflectiveOperationException failed) {
                    throw unusable(library, failed);
                }
            }
            if (wanted.equals("ffm")) {
                throw unusable(library, reason != null ? reason : new UnsupportedOperationException("java.lang.foreign needs Java 22"));
            }
            try {
                return new JnaLayer(library);
            } catch (UnsatisfiedLinkError | NoClassDefFoundError failed) {
                throw unusable(library, failed);
            }
        }

        private static IllegalStateException unusable(String library, Throwable cause) {
            return new IllegalStateException("coracle: the library " + library + " cannot be used: " + cause.getMessage(), cause);
        }
    }
}
