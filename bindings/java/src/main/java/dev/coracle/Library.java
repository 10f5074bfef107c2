package dev.coracle;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Where the library is: the property coracle.library, the variable CORACLE_LIBRARY, the jar of this platform (coracle-linux-x86_64.jar),
 * or the system.
 *
 * @param name a path, or a name for the system's search
 * @param copy the copy of the one in the jar, which is removed when it is loaded; or null
 */
record Library(String name, Path copy) implements AutoCloseable {
    private static final String SYSTEM = "libcoracle.so.1";

    static Library find() {
        String named = System.getProperty("coracle.library", System.getenv("CORACLE_LIBRARY"));
        if (named != null && !named.isEmpty()) {
            return new Library(named, null);
        }
        try (InputStream inside = Library.class.getResourceAsStream("/native/linux-" + machine() + "/" + SYSTEM)) {
            return inside == null ? new Library(SYSTEM, null) : copied(inside);
        } catch (IOException failed) {
            throw new UncheckedIOException("coracle: the library of the jar cannot be unpacked; the property coracle.native.dir names another directory", failed);
        }
    }

    /** The machine, as uname calls it. */
    private static String machine() {
        String name = System.getProperty("os.arch");
        return name.equals("amd64") ? "x86_64" : name;
    }

    private static Library copied(InputStream inside) throws IOException {
        // Others may write to the directory, and not to the file.
        String dir = System.getProperty("coracle.native.dir", System.getProperty("java.io.tmpdir"));
        Path copy = Files.createTempFile(Path.of(dir), "libcoracle-", ".so.1");
        try {
            try (java.io.OutputStream to = Files.newOutputStream(copy)) {
                inside.transferTo(to);
            }
            return new Library(copy.toString(), copy);
        } catch (IOException failed) {
            Files.deleteIfExists(copy);
            throw failed;
        }
    }

    @Override
    public void close() {
        if (copy != null) {
            try {
                Files.deleteIfExists(copy);
            } catch (IOException stays) {
                // The library is loaded, and the program works beside a file that stays.
            }
        }
    }
}
