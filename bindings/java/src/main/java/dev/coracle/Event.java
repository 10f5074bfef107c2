package dev.coracle;

import java.time.Instant;
import java.util.Map;

/**
 * An event of a root.
 *
 * @param type the kind of the object, such as container
 * @param action such as start or die
 * @param id the object
 * @param attributes facts, such as exitCode
 * @param time when it happened
 * @param sequence a number that rises from event to event, for "after"
 * @param document the whole event
 */
public record Event(String type, String action, String id, Map<String, String> attributes, Instant time, long sequence, Document document) {
    static Event of(Document event) {
        long nanos = event.number("timeNano");
        return new Event(
                event.text("Type"), event.text("Action"), event.text("Actor.ID"), event.map("Actor.Attributes"),
                Instant.ofEpochSecond(nanos / 1_000_000_000, nanos % 1_000_000_000), event.number("sequence"), event);
    }
}
