package dev.coracle;

/**
 * Where the standard streams of a process come from; null: the library makes the stream.
 *
 * @param stdin a descriptor of the caller's in place of the session's own
 * @param stdout the same for stdout
 * @param stderr the same for stderr
 * @param rows the size of a terminal; 0: not set
 * @param cols the size of a terminal; 0: not set
 * @param direct the process itself gets the descriptors, without a copy of any byte
 */
public record ProcessIo(Descriptor stdin, Descriptor stdout, Descriptor stderr, int rows, int cols, boolean direct) {
    /** Streams that the library makes. */
    public static final ProcessIo PIPES = new ProcessIo(null, null, null, 0, 0, false);

    /** Checks the size. */
    public ProcessIo {
        if (rows < 0 || rows > 0xffff || cols < 0 || cols > 0xffff) {
            throw new IllegalArgumentException("a terminal has 0 to 65535 rows and columns");
        }
    }

    /** The size of a terminal. */
    public static ProcessIo terminal(int rows, int cols) {
        return new ProcessIo(null, null, null, rows, cols, false);
    }

    static int number(Descriptor given) {
        return given == null ? -1 : given.number();
    }
}
