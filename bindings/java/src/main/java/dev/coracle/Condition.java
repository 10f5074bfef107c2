package dev.coracle;

/** The state that a wait waits for. */
public enum Condition {
    NOT_RUNNING("not-running"),
    NEXT_EXIT("next-exit"),
    REMOVED("removed");

    final String text;

    Condition(String text) {
        this.text = text;
    }
}
