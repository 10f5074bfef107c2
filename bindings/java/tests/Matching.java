package dev.coracle;

import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** Compares a result with the expected one. */
final class Matching {
    /** A result that is not the expected one. */
    static final class Wrong extends RuntimeException {
        private static final long serialVersionUID = 1;

        Wrong(String message) {
            super(message);
        }
    }

    private Matching() {}

    /** Values in the form that a parsed document has. */
    static Object plain(Object value) {
        if (value == null) {
            return null;
        }
        if (value instanceof Document document) {
            return document.members();
        }
        if (value instanceof Integer number) {
            return number.longValue();
        }
        if (value instanceof Collection<?> list) {
            return list.stream().map(Matching::plain).toList();
        }
        return value;
    }

    static void match(Object expected, Object got, String where) {
        if (expected instanceof List<?> list) {
            List<?> found = got instanceof List<?> other ? other : List.of();
            if (!(got instanceof List) || found.size() != list.size()) {
                throw wrong(expected, got, where);
            }
            for (int at = 0; at < list.size(); at++) {
                match(list.get(at), found.get(at), where + "[" + at + "]");
            }
        } else if (expected instanceof Map<?, ?> map) {
            for (Map.Entry<?, ?> one : map.entrySet()) {
                String key = (String) one.getKey();
                if (key.startsWith("$")) {
                    if (!matcher(key, one.getValue(), got)) {
                        throw wrong(expected, got, where);
                    }
                } else if (got instanceof Map<?, ?> found) {
                    match(one.getValue(), found.get(key), where + "." + key);
                } else {
                    throw wrong(expected, got, where);
                }
            }
        } else if (!Objects.equals(expected, got)) {
            throw wrong(expected, got, where);
        }
    }

    private static Wrong wrong(Object expected, Object got, String where) {
        String text = String.valueOf(got);
        return new Wrong((where.isEmpty() ? "result" : where) + ": wanted " + expected + ", got " + text.substring(0, Math.min(text.length(), 600)));
    }

    private static boolean matches(Object expected, Object got) {
        try {
            match(expected, got, "");
            return true;
        } catch (Wrong other) {
            return false;
        }
    }

    private static long length(Object got) {
        if (got instanceof String text) {
            return text.length();
        }
        return got instanceof Map<?, ?> map ? map.size() : got instanceof List<?> list ? list.size() : 0;
    }

    private static boolean matcher(String key, Object value, Object got) {
        return switch (key) {
            case "$has" -> got instanceof String text && text.contains((String) value);
            case "$above" -> got instanceof Number number && number.doubleValue() > ((Number) value).doubleValue();
            case "$len" -> length(got) == (Long) value;
            case "$len_above" -> length(got) > (Long) value;
            case "$not" -> got != null && !value.equals(got);
            case "$one_of" -> ((List<?>) value).contains(got);
            case "$contains" -> got instanceof List<?> list && list.stream().anyMatch(one -> matches(value, one));
            default -> throw new Wrong("no matcher " + key);
        };
    }
}
