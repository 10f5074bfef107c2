package dev.coracle;

import java.nio.charset.StandardCharsets;
import java.time.Instant;

/**
 * A line of a log.
 *
 * @param channel stdout or stderr
 * @param time when it came
 * @param data its bytes, with the newline
 */
public record LogLine(Channel channel, Instant time, byte[] data) {
    /** The line as text, without the newline. */
    public String text() {
        String text = new String(data, StandardCharsets.UTF_8);
        return text.endsWith("\n") ? text.substring(0, text.length() - 1) : text;
    }

    @Override
    public String toString() {
        return text();
    }

    static LogLine of(Call call) {
        long nanos = call.frameNanos();
        Instant time = Instant.ofEpochSecond(Math.floorDiv(nanos, 1_000_000_000L), Math.floorMod(nanos, 1_000_000_000L));
        return new LogLine(Channel.of(call.frameChannel()), time, call.frameBytes());
    }

    static Document sample(Call call) {
        return Document.parse(new String(call.frameBytes(), StandardCharsets.UTF_8));
    }
}
