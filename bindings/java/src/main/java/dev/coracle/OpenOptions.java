package dev.coracle;

import java.nio.file.Path;

/** How a root is opened: {@code OpenOptions.DEFAULTS.config(Map.of("durability", "off")).existing()}. */
public final class OpenOptions {
    /** A root is made where there is none; nothing else is set. */
    public static final OpenOptions DEFAULTS = new OpenOptions(null, null, 0);

    private final String runDir;
    private final Object config;
    private final int flags;

    private OpenOptions(String runDir, Object config, int flags) {
        this.runDir = runDir;
        this.config = config;
        this.flags = flags;
    }

    /** A directory on tmpfs for data that a reboot ends; without one: a directory under /run/coracle. */
    public OpenOptions runDir(Path directory) {
        return new OpenOptions(directory.toString(), config, flags);
    }

    /** A map or another document with members such as "durability", "log-driver", "labels", "insecure-registries". */
    public OpenOptions config(Object members) {
        return new OpenOptions(runDir, members, flags);
    }

    /** No new root is made. */
    public OpenOptions existing() {
        return new OpenOptions(runDir, config, flags | Raw.OPEN_EXISTING);
    }

    /** Unknown members of documents are passed over, and named by the warnings of answers. */
    public OpenOptions lenient() {
        return new OpenOptions(runDir, config, flags | Raw.OPEN_LENIENT);
    }

    /** Containers that are created by this engine end when it is closed or the program ends. */
    public OpenOptions ephemeral() {
        return new OpenOptions(runDir, config, flags | Raw.OPEN_EPHEMERAL);
    }

    String runDir() {
        return runDir;
    }

    Object config() {
        return config;
    }

    int flags() {
        return flags;
    }
}
