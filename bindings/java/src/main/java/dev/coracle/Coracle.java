package dev.coracle;

import java.nio.file.Path;

/** The library: its version, its log, and the way to an engine. */
public final class Coracle {
    private Coracle() {}

    /** Opens a root, a directory, and makes it if it is not there. */
    public static Engine open(Path root) {
        return open(root, null);
    }

    /** Opens a root with options; null: the defaults. */
    public static Engine open(Path root, OpenOptions options) {
        try (Call call = new Call(Bounds.NONE)) {
            Raw.open(call, root.toString(), options);
            return new Engine(Engine.handle(call.handle()), Bounds.NONE);
        }
    }

    /** Opens a root, a directory, and makes it if it is not there. */
    public static Engine open(String root) {
        return open(Path.of(root), null);
    }

    /** The library's version, such as "0.1.0". */
    public static String version() {
        try (Call call = new Call(Bounds.NONE)) {
            return Raw.versionString(call);
        }
    }

    /** The library's version: major * 65536 + minor * 256 + patch. */
    public static int versionNumber() {
        try (Call call = new Call(Bounds.NONE)) {
            return (int) Raw.version(call);
        }
    }

    /** How the library was built. */
    public static Document buildInfo() {
        try (Call call = new Call(Bounds.NONE)) {
            return Document.parse(Raw.buildInfo(call));
        }
    }

    /** Whether the library has a feature, such as "registry" or "leases". */
    public static boolean hasFeature(String name) {
        try (Call call = new Call(Bounds.NONE)) {
            return Raw.hasFeature(call, name) == 1;
        }
    }

    /** The name of a status of the C interface, such as "NOT_FOUND". */
    public static String statusName(int status) {
        try (Call call = new Call(Bounds.NONE)) {
            return Raw.statusName(call, status);
        }
    }

    /** Describes everything that an engine needs of the host; it opens nothing. */
    public static Document hostReport(Path root) {
        return hostReport(root, null);
    }

    /** The same for a root with options. */
    public static Document hostReport(Path root, OpenOptions options) {
        try (Call call = new Call(Bounds.NONE)) {
            Raw.hostReport(call, root.toString(), options);
            return Document.parse(call.json());
        }
    }

    /** Has a sink called with the messages of that level and graver; null: none is called any more. */
    public static void setLog(LogLevel level, LogSink sink) {
        setLog(level.number(), sink);
    }

    /** No message may come into a JVM that ends. */
    private static final class End {
        static {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> setLog(Raw.LOG_ERROR, null), "coracle-end"));
        }

        private End() {}

        /** The first call of it adds the hook. */
        static void isCertain() {}
    }

    static void setLog(int level, LogSink sink) {
        try (Call call = new Call(Bounds.NONE)) {
            if (sink == null) {
                Raw.setLog(call, level, 0, 0, 0);
                return;
            }
            End.isCertain();
            long user = Callbacks.keep(sink);
            try {
                Layer.Functions functions = call.layer.functions();
                Raw.setLog(call, level, functions.log(), user, functions.drop());
            } catch (CoracleException refused) {
                Callbacks.forget(user);
                throw refused;
            }
        }
    }
}
