package dev.coracle;

import java.nio.charset.StandardCharsets;

/**
 * Everything that a process gave.
 *
 * @param code its exit code, 128 + n if signal n ended it
 * @param stdout its output
 * @param stderr its error output
 */
public record Output(int code, byte[] stdout, byte[] stderr) {
    /** The output as text. */
    public String text() {
        return new String(stdout, StandardCharsets.UTF_8);
    }

    /** The error output as text. */
    public String errorText() {
        return new String(stderr, StandardCharsets.UTF_8);
    }
}
