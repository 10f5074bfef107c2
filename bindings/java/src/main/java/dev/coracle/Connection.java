package dev.coracle;

import java.io.EOFException;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * A private connection that speaks the HTTP API: for clients with protocol code of their own by input() and output(), or for one
 * {@link #request}.
 */
public final class Connection implements AutoCloseable {
    private static final int LINE = 64 << 10;
    private static final int PIECE = 32 << 10;

    private final Descriptor socket;
    private final InputStream input;
    private final OutputStream output;

    Connection(Descriptor socket, Bounds bounds) {
        this.socket = socket;
        input = new java.io.BufferedInputStream(socket.input(bounds));
        output = socket.output();
    }

    /** Bytes from the engine. */
    public InputStream input() {
        return input;
    }

    /** Bytes to the engine. */
    public OutputStream output() {
        return output;
    }

    /** Ends the bytes to the engine; those from the engine still come. */
    public void endOutput() throws IOException {
        socket.endOutput();
    }

    /**
     * Makes the one request of this connection. The body of an answer with status 101 is the bytes of the stream that was asked for, and
     * output() writes to it. The answer's end closes the connection.
     *
     * @param body is sent in pieces, as it comes; null: none
     */
    public Response request(String method, String target, Map<String, String> headers, InputStream body) throws IOException {
        StringBuilder head = new StringBuilder(method).append(' ').append(target).append(" HTTP/1.1\r\nHost: coracle\r\n");
        for (Map.Entry<String, String> one : headers.entrySet()) {
            head.append(one.getKey()).append(": ").append(one.getValue()).append("\r\n");
        }
        if (body != null) {
            head.append("Transfer-Encoding: chunked\r\n");
        }
        if (headers.keySet().stream().noneMatch("connection"::equalsIgnoreCase)) {
            head.append("Connection: close\r\n");
        }
        if ((method + target + headers).matches("(?s).*[\r\n].*")) {
            throw new IOException("a line of the request has the end of a line in it");
        }
        output.write(head.append("\r\n").toString().getBytes(StandardCharsets.UTF_8));
        if (body != null) {
            send(body);
        }
        return answer(method);
    }

    private void send(InputStream body) throws IOException {
        byte[] piece = new byte[PIECE];
        for (int count; (count = body.read(piece)) >= 0;) {
            if (count > 0) {
                output.write((Integer.toHexString(count) + "\r\n").getBytes(StandardCharsets.US_ASCII));
                output.write(piece, 0, count);
                output.write("\r\n".getBytes(StandardCharsets.US_ASCII));
            }
        }
        output.write("0\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
    }

    private Response answer(String method) throws IOException {
        for (;;) {
            String[] first = line().split(" ", 3);
            if (first.length < 2 || !first[0].startsWith("HTTP/1.")) {
                throw new IOException("the answer is no HTTP");
            }
            int status = Integer.parseInt(first[1]);
            Map<String, List<String>> headers = headers();
            // A remark in between, such as 100.
            if (status >= 200 || status == 101) {
                boolean bare = method.equals("HEAD") || status == 204 || status == 304;
                return new Response(status, headers, bare ? owner(InputStream.nullInputStream()) : owner(body(status, headers)));
            }
        }
    }

    private Map<String, List<String>> headers() throws IOException {
        Map<String, List<String>> made = new LinkedHashMap<>();
        for (String line; !(line = line()).isEmpty();) {
            int colon = line.indexOf(':');
            if (colon > 0) {
                String name = line.substring(0, colon).trim().toLowerCase(Locale.ROOT);
                made.computeIfAbsent(name, none -> new ArrayList<>()).add(line.substring(colon + 1).trim());
            }
        }
        return made;
    }

    private String line() throws IOException {
        StringBuilder made = new StringBuilder();
        for (int one; (one = input.read()) != '\n';) {
            if (one < 0) {
                throw new EOFException("the connection ended within an answer");
            }
            if (made.length() == LINE) {
                throw new IOException("a line of the answer is longer than " + LINE + " bytes");
            }
            made.append((char) one);
        }
        int end = made.length();
        return made.substring(0, end > 0 && made.charAt(end - 1) == '\r' ? end - 1 : end);
    }

    private InputStream body(int status, Map<String, List<String>> headers) {
        if (status != 101 && headers.getOrDefault("transfer-encoding", List.of()).contains("chunked")) {
            return new Chunks();
        }
        List<String> length = headers.getOrDefault("content-length", List.of());
        return status == 101 || length.isEmpty() ? input : new Counted(Long.parseLong(length.get(0)));
    }

    /** The body, whose close closes the connection. */
    private InputStream owner(InputStream body) {
        return new FilterInputStream(body) {
            @Override
            public void close() {
                Connection.this.close();
            }
        };
    }

    /** So many bytes of the connection. */
    private class Counted extends InputStream {
        long left;

        Counted(long left) {
            this.left = left;
        }

        @Override
        public int read() throws IOException {
            byte[] one = new byte[1];
            return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
        }

        @Override
        public int read(byte[] to, int offset, int count) throws IOException {
            if (left == 0) {
                return -1;
            }
            int got = input.read(to, offset, (int) Math.min(count, left));
            if (got < 0) {
                throw new EOFException("the connection ended within a body");
            }
            left -= got;
            return got;
        }
    }

    /** A body in chunks. */
    private final class Chunks extends Counted {
        private boolean begun;
        private boolean ended;

        Chunks() {
            super(0);
        }

        @Override
        public int read(byte[] to, int offset, int count) throws IOException {
            if (ended || count == 0) {
                return ended ? -1 : 0;
            }
            if (left == 0) {
                if (begun) {
                    line();
                }
                begun = true;
                left = Long.parseLong(line().split(";", 2)[0].trim(), 16);
                if (left == 0) {
                    ended = true;
                    headers();
                    return -1;
                }
            }
            return super.read(to, offset, count);
        }
    }

    /** Ends the connection. */
    @Override
    public void close() {
        socket.close();
    }
}
