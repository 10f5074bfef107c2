package dev.coracle;

import com.github.dockerjava.transport.DockerHttpClient;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The transport of docker-java over private connections of an engine: no socket, no daemon.
 *
 * <pre>{@code
 * DockerClient docker = DockerClientImpl.getInstance(DefaultDockerClientConfig.createDefaultConfigBuilder().build(), new DockerTransport(engine));
 * }</pre>
 */
public final class DockerTransport implements DockerHttpClient {
    private final Engine engine;

    /** The engine stays the caller's to close. */
    public DockerTransport(Engine engine) {
        this.engine = engine;
    }

    @Override
    public Response execute(Request request) {
        Connection connection = engine.connect();
        try {
            return new Answer(connection, answer(connection, request));
        } catch (IOException failed) {
            connection.close();
            throw new UncheckedIOException(failed);
        } catch (RuntimeException failed) {
            connection.close();
            throw failed;
        }
    }

    private static dev.coracle.Response answer(Connection connection, Request request) throws IOException {
        Map<String, String> headers = new LinkedHashMap<>(request.headers());
        InputStream input = request.hijackedInput();
        if (input != null) {
            headers.put("Connection", "Upgrade");
            headers.put("Upgrade", "tcp");
        }
        byte[] bytes = request.bodyBytes();
        InputStream body = bytes != null ? new ByteArrayInputStream(bytes) : request.body();
        dev.coracle.Response made = connection.request(request.method(), request.path(), headers, body);
        if (input != null && made.status() == 101) {
            Threads.POOL.execute(() -> copy(input, connection));
        }
        return made;
    }

    /** Copies a caller's input to the process, piece by piece; its end ends the process's input. */
    private static void copy(InputStream input, Connection connection) {
        byte[] piece = new byte[8192];
        try {
            for (int count; (count = input.read(piece)) >= 0;) {
                connection.output().write(piece, 0, count);
            }
            connection.endOutput();
        } catch (IOException | CoracleException ended) {
            // The process or the caller has ended the connection, and the reader of the answer sees the end.
        }
    }

    /** Connections end with their answers. */
    @Override
    public void close() {}

    private record Answer(Connection connection, dev.coracle.Response answer) implements Response {
        @Override
        public int getStatusCode() {
            // docker-java takes every status but 2xx for a failure.
            return answer.status() == 101 ? 200 : answer.status();
        }

        @Override
        public Map<String, List<String>> getHeaders() {
            return answer.headers();
        }

        @Override
        public InputStream getBody() {
            return answer.body();
        }

        @Override
        public void close() {
            connection.close();
        }
    }
}
