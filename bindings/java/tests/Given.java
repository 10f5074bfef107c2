package dev.coracle;

import java.util.List;
import java.util.Map;

/** The members of a step, filled. */
record Given(Map<String, Object> members) {
    boolean has(String name) {
        return members.containsKey(name);
    }

    Object get(String name) {
        return members.get(name);
    }

    /** A text; null: it is absent. */
    String text(String name) {
        return (String) members.get(name);
    }

    long number(String name) {
        return ((Number) members.get(name)).longValue();
    }

    boolean is(String name) {
        return Boolean.TRUE.equals(members.get(name));
    }

    @SuppressWarnings("unchecked")
    Map<String, Object> map(String name) {
        return (Map<String, Object>) members.get(name);
    }

    List<?> list(String name) {
        return (List<?>) members.get(name);
    }

    String[] texts(String name) {
        return has(name) ? list(name).toArray(new String[0]) : new String[0];
    }
}
