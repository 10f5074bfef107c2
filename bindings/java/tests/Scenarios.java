package dev.coracle;

import com.google.gson.reflect.TypeToken;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/**
 * Runs the scenarios that all bindings share (bindings/scenarios) by the Java binding.
 *
 * <p>Scenarios [WORDS]: only those whose names have WORDS in them. Environment: CORACLE_LIBRARY, CORACLE_TEST_IMAGE (an archive),
 * CORACLE_TEST_REGISTRY (host:port), CORACLE_SCENARIOS (the file).
 */
final class Scenarios {
    /** How long to wait, in nanoseconds, for something that comes. */
    static final long LONG = Long.parseLong(System.getenv().getOrDefault("CORACLE_TEST_SECONDS", "300")) * 1_000_000_000;

    private final Map<String, Object> list;
    final Path dir;
    final Map<String, Object> values;
    final Map<String, Object> things;
    /** The output of each session that was read so far. */
    final Map<String, Map<String, Object>> read = new HashMap<>();

    private Scenarios(Map<String, Object> list, Path dir, Map<String, Object> values, Map<String, Object> things) {
        this.list = list;
        this.dir = dir;
        this.values = values;
        this.things = things;
    }

    static Engine open(Path dir) {
        return Coracle.open(dir.resolve("root"), OpenOptions.DEFAULTS.runDir(dir.resolve("run")).config(Map.of("durability", "off")));
    }

    @SuppressWarnings("unchecked")
    static Scenarios begin(Map<String, Object> list) throws Exception {
        // Short, because of sockets below it.
        Path dir = Files.createTempDirectory("scn-");
        Path archive = Path.of(System.getenv("CORACLE_TEST_IMAGE"));
        Engine engine = open(dir);
        Map<String, Object> values = new HashMap<>((Map<String, Object>) list.get("values"));
        values.put("dir", dir.toString());
        values.put("archive", archive.toString());
        values.put("registry", System.getenv("CORACLE_TEST_REGISTRY"));
        values.put("image", engine.images().load(archive).get(0));
        return new Scenarios(list, dir, values, new HashMap<>(Map.of("engine", engine)));
    }

    void end() throws Exception {
        // The scenario may have closed its own handle.
        try (Engine engine = open(dir)) {
            for (Document one : engine.containers().list(Map.of("all", true))) {
                try {
                    engine.container(one.text("Id")).remove(Remove.FORCE, Remove.VOLUMES);
                } catch (CoracleException.NotFound gone) {
                    // The container removed itself.
                }
            }
            for (Document one : engine.plugins().list()) {
                engine.plugins().remove(one.text("Id"), true);
            }
            engine.networks().prune();
            engine.networks().release();
        }
        close(things);
        removeTree(dir);
    }

    private static void close(Map<String, Object> things) throws Exception {
        for (Object thing : things.values()) {
            if (thing instanceof AutoCloseable closeable) {
                closeable.close();
            }
        }
    }

    static void removeTree(Path dir) throws Exception {
        try (Stream<Path> all = Files.walk(dir)) {
            for (Path one : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(one);
            }
        }
    }

    /** Steps with values and handles of their own on the same root. */
    void aside(List<?> steps) throws Exception {
        Scenarios other = new Scenarios(list, dir, new HashMap<>(values), new HashMap<>(things));
        try {
            other.steps(steps);
        } finally {
            other.things.values().removeAll(things.values());
            close(other.things);
        }
    }

    @SuppressWarnings("unchecked")
    void steps(List<?> steps) throws Exception {
        for (Object each : steps) {
            Map<String, Object> one = (Map<String, Object>) each;
            // Java has no feature that a step may need.
            if (one.containsKey("needs")) {
                continue;
            }
            if (one.get("use") instanceof String fragment) {
                steps((List<?>) ((Map<String, Object>) list.get("fragments")).get(fragment));
                continue;
            }
            long end = System.nanoTime() + LONG;
            for (;;) {
                try {
                    once(one);
                    break;
                } catch (Exception failed) {
                    if (one.containsKey("retry") && System.nanoTime() < end) {
                        Thread.sleep(50);
                        continue;
                    }
                    String text = one.toString();
                    throw new Exception(text.substring(0, Math.min(text.length(), 300)) + ": " + failed, failed);
                }
            }
        }
    }

    private void once(Map<String, Object> one) throws Exception {
        Map<String, Object> filled = new LinkedHashMap<>();
        for (Map.Entry<String, Object> each : one.entrySet()) {
            filled.put(each.getKey(), each.getKey().equals("steps") ? each.getValue() : filled(each.getValue()));
        }
        Given given = new Given(filled);
        Object result;
        try {
            result = Matching.plain(Steps.run(this, given));
        } catch (Matching.Wrong wrong) {
            throw wrong;
        } catch (Exception failed) {
            expect(given, failed);
            return;
        }
        if (given.has("error")) {
            throw new Matching.Wrong("wanted " + given.text("error") + ", got " + result);
        }
        if (given.has("expect")) {
            Matching.match(given.get("expect"), result, "");
        }
        if (given.get("save") instanceof Map<?, ?> save) {
            for (Map.Entry<?, ?> each : save.entrySet()) {
                Object value = result;
                for (String part : ((String) each.getValue()).split("\\.")) {
                    value = part.isEmpty() ? value : ((Map<?, ?>) value).get(part);
                }
                values.put((String) each.getKey(), value);
            }
        }
    }

    private static void expect(Given given, Exception failed) {
        String code = failed.toString();
        if (failed instanceof Steps.Caller) {
            code = "CALLER";
        } else if (failed instanceof CoracleException error) {
            code = error.code().name();
        }
        if (!code.equals(given.text("error"))) {
            throw new Matching.Wrong((given.has("error") ? "wanted " + given.text("error") + ", got " : "") + code + ": " + failed.getMessage());
        }
        if (!(failed instanceof CoracleException error)) {
            return;
        }
        if (given.has("status") && given.number("status") != error.status()) {
            throw new Matching.Wrong("wanted status " + given.number("status") + ", got " + error.status());
        }
        if (given.get("detail") instanceof Map<?, ?> detail) {
            if (detail.containsKey("field") && !detail.get("field").equals(error.field())) {
                throw new Matching.Wrong("wanted field " + detail.get("field") + ", got " + error.field());
            }
            Matching.match(detail, error.detail().members(), "detail");
        }
        if (given.has("has") && !error.getMessage().contains(given.text("has"))) {
            throw new Matching.Wrong("wanted \"" + given.text("has") + "\" in \"" + error.getMessage() + "\"");
        }
    }

    /** A value with the values of names such as $id; $$ is a dollar sign. */
    private Object filled(Object value) {
        if (value instanceof List<?> all) {
            return all.stream().map(this::filled).toList();
        }
        if (value instanceof Map<?, ?> all) {
            Map<String, Object> made = new LinkedHashMap<>();
            all.forEach((name, one) -> made.put((String) name, filled(one)));
            return made;
        }
        if (!(value instanceof String text)) {
            return value;
        }
        if (text.startsWith("$") && values.containsKey(text.substring(1))) {
            return values.get(text.substring(1));
        }
        String made = text.replace("$$", "\u0001");
        for (String name : values.keySet().stream().sorted(Comparator.comparing(String::length).reversed()).toList()) {
            if (values.get(name) instanceof String found) {
                made = made.replace("$" + name, found);
            }
        }
        return made.replace('\u0001', '$');
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws Exception {
        String words = arguments.length == 0 ? "" : arguments[0];
        Map<String, Object> list = Document.read(Files.readString(Path.of(System.getenv("CORACLE_SCENARIOS"))), new TypeToken<Map<String, Object>>() {});
        int passed = 0;
        int failed = 0;
        for (Object each : (List<?>) list.get("scenarios")) {
            Map<String, Object> scenario = (Map<String, Object>) each;
            String name = (String) scenario.get("name");
            if (!name.contains(words)) {
                continue;
            }
            if (scenario.containsKey("needs")) {
                System.out.println("not for Java: " + name + " " + scenario.get("needs"));
                continue;
            }
            if (System.getenv("CORACLE_VERBOSE") != null) {
                System.out.println(name);
            }
            Scenarios run = begin(list);
            try {
                run.steps((List<?>) scenario.get("steps"));
                passed++;
            } catch (Exception wrong) {
                failed++;
                System.out.println("failed: " + name + ": " + wrong.getMessage());
                if (System.getenv("CORACLE_VERBOSE") != null) {
                    wrong.printStackTrace(System.out);
                }
            }
            run.end();
        }
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed != 0 || passed == 0 ? 1 : 0);
    }
}
