package dev.coracle;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonParseException;
import com.google.gson.JsonSerializer;
import com.google.gson.ToNumberPolicy;
import com.google.gson.reflect.TypeToken;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * A document of the engine: a map with typed readers. A name with dots leads into documents within: {@code text("State.Status")}.
 *
 * <p>A reader of a member that is absent gives null (or 0, false, an empty list); of one with another type it throws ClassCastException.
 * {@link #as} reads the whole as a record or another class, by Gson. A document that goes in may be a map, a record, a Document, or
 * whatever Gson writes.
 */
public final class Document {
    static final Document EMPTY = new Document(Map.of());

    private static final Gson GSON = new GsonBuilder()
            .disableHtmlEscaping()
            .setObjectToNumberStrategy(ToNumberPolicy.LONG_OR_DOUBLE)
            .registerTypeAdapter(Document.class, (JsonSerializer<Document>) (from, type, context) -> context.serialize(from.members, Map.class))
            .create();

    private final Map<String, Object> members;

    private Document(Map<String, Object> members) {
        this.members = members;
    }

    /** A document of names and values in turn: {@code Document.of("Image", image, "Cmd", List.of("true"))}. */
    public static Document of(Object... pairs) {
        if (pairs.length % 2 != 0) {
            throw new IllegalArgumentException("a name without a value");
        }
        Map<String, Object> made = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            made.put((String) pairs[at], pairs[at + 1]);
        }
        return new Document(Collections.unmodifiableMap(made));
    }

    /** Reads a text in JSON. */
    public static Document parse(String json) {
        Map<String, Object> read = read(json, new TypeToken<Map<String, Object>>() {});
        return read == null ? EMPTY : new Document(Collections.unmodifiableMap(read));
    }

    static <T> T read(String json, TypeToken<T> type) {
        return GSON.fromJson(json, type.getType());
    }

    /** A value in JSON; null for null. */
    static String write(Object value) {
        if (value == null) {
            return null;
        }
        try {
            return GSON.toJson(value);
        } catch (IllegalArgumentException | JsonParseException | StackOverflowError | UnsupportedOperationException refused) {
            throw CoracleException.of(Code.INVALID, "a document cannot be written: " + refused.getMessage(), refused);
        }
    }

    /** A list of documents. */
    static List<Document> list(String json) {
        return documents(read(json, new TypeToken<List<Object>>() {}));
    }

    private static List<Document> documents(List<?> values) {
        List<Document> made = new ArrayList<>();
        for (Object one : values) {
            made.add(document(one));
        }
        return Collections.unmodifiableList(made);
    }

    @SuppressWarnings("unchecked")
    private static Document document(Object value) {
        return value instanceof Document made ? made : new Document(Collections.unmodifiableMap((Map<String, Object>) value));
    }

    /** The members: texts, Long, Double, Boolean, lists, maps. */
    public Map<String, Object> members() {
        return members;
    }

    /** The value of that name or path. A member whose own name has dots comes first. */
    public Object get(String path) {
        if (members.containsKey(path)) {
            return members.get(path);
        }
        int dot = path.indexOf('.');
        Object within = dot < 0 ? null : members.get(path.substring(0, dot));
        return within instanceof Map || within instanceof Document ? document(within).get(path.substring(dot + 1)) : null;
    }

    /** A text, or null. */
    public String text(String path) {
        return (String) get(path);
    }

    /** A whole number, or 0. */
    public long number(String path) {
        Object found = get(path);
        return found == null ? 0 : ((Number) found).longValue();
    }

    /** Whether the member is there and true. */
    public boolean is(String path) {
        Object found = get(path);
        return found != null && (Boolean) found;
    }

    /** A document within, or an empty one. */
    public Document document(String path) {
        return Optional.ofNullable(get(path)).map(Document::document).orElse(EMPTY);
    }

    /** A list of documents. */
    public List<Document> documents(String path) {
        Object found = get(path);
        return found == null ? List.of() : documents((List<?>) found);
    }

    /** A list of texts. */
    public List<String> texts(String path) {
        List<String> made = new ArrayList<>();
        for (Object one : Optional.ofNullable((List<?>) get(path)).orElse(List.of())) {
            made.add((String) one);
        }
        return Collections.unmodifiableList(made);
    }

    /** Texts by their names. */
    public Map<String, String> map(String path) {
        Map<String, String> made = new LinkedHashMap<>();
        document(path).members.forEach((name, value) -> made.put(name, (String) value));
        return Collections.unmodifiableMap(made);
    }

    /** The document as an object of a class, such as a record, by Gson. */
    public <T> T as(Class<T> type) {
        return GSON.fromJson(GSON.toJsonTree(members), type);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Document document && members.equals(document.members);
    }

    @Override
    public int hashCode() {
        return members.hashCode();
    }

    /** The document in JSON. */
    @Override
    public String toString() {
        return GSON.toJson(members);
    }
}
