package dev.coracle;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/** Small tars: of texts by name, and back. */
final class Tars {
    private static final int BLOCK = 512;

    private Tars() {}

    private static void put(byte[] header, int at, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        System.arraycopy(bytes, 0, header, at, bytes.length);
    }

    private static byte[] header(String name, int size) {
        byte[] made = new byte[BLOCK];
        put(made, 0, name);
        put(made, 100, "0000644\0");
        put(made, 108, "0000000\0");
        put(made, 116, "0000000\0");
        put(made, 124, String.format("%011o\0", size));
        put(made, 136, "00000000000\0");
        put(made, 148, "        ");
        put(made, 156, "0");
        put(made, 257, "ustar\00000");
        int sum = 0;
        for (byte one : made) {
            sum += one & 0xff;
        }
        put(made, 148, String.format("%06o\0 ", sum));
        return made;
    }

    /** A tar of texts. */
    static byte[] of(Map<?, ?> files) {
        ByteArrayOutputStream made = new ByteArrayOutputStream();
        for (Map.Entry<?, ?> one : files.entrySet()) {
            byte[] data = ((String) one.getValue()).getBytes(StandardCharsets.UTF_8);
            made.writeBytes(header((String) one.getKey(), data.length));
            made.writeBytes(data);
            made.writeBytes(new byte[(BLOCK - data.length % BLOCK) % BLOCK]);
        }
        made.writeBytes(new byte[2 * BLOCK]);
        return made.toByteArray();
    }

    private static String field(byte[] header, int at, int length) {
        String text = new String(header, at, length, StandardCharsets.UTF_8);
        int end = text.indexOf(0);
        return (end < 0 ? text : text.substring(0, end)).trim();
    }

    /** The small files of a tar. */
    static Map<String, Object> files(InputStream tar) throws IOException {
        Map<String, Object> made = new LinkedHashMap<>();
        for (byte[] header; (header = tar.readNBytes(BLOCK)).length == BLOCK;) {
            if (header[0] == 0) {
                tar.transferTo(java.io.OutputStream.nullOutputStream());
                break;
            }
            int size = Integer.parseInt(field(header, 124, 12), 8);
            byte[] data = tar.readNBytes((size + BLOCK - 1) / BLOCK * BLOCK);
            if ((header[156] == '0' || header[156] == 0) && size < 4096) {
                made.put(field(header, 0, 100), new String(data, 0, size, StandardCharsets.UTF_8));
            }
        }
        return made;
    }
}
