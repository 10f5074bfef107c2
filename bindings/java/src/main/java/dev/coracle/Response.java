package dev.coracle;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;

/**
 * An answer of the HTTP API. To be closed.
 *
 * @param status such as 200
 * @param headers by their names in small letters; empty of {@link Engine#request}
 * @param body the body
 */
public record Response(int status, Map<String, List<String>> headers, InputStream body) implements AutoCloseable {
    /** The whole body as text. */
    public String text() throws IOException {
        return new String(body.readAllBytes(), StandardCharsets.UTF_8);
    }

    /** Ends the body, read to its end or not. */
    @Override
    public void close() throws IOException {
        body.close();
    }
}
