package dev.coracle;

/**
 * A record of a call that lasts.
 *
 * @param stream text of a build or a load, or null
 * @param status the step that a part is at, or null
 * @param id the part, such as a layer's short id, or null
 * @param current bytes so far
 * @param total bytes in all; 0: they are not known
 * @param document the whole record
 */
public record Progress(String stream, String status, String id, long current, long total, Document document) {
    static Progress of(Document record) {
        return new Progress(
                record.text("stream"), record.text("status"), record.text("id"),
                record.number("progressDetail.current"), record.number("progressDetail.total"), record);
    }
}
