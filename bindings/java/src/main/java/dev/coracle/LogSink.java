package dev.coracle;

/** Takes a message of the library: from any thread. It must not call the library. */
@FunctionalInterface
public interface LogSink {
    /** Takes a message about a part of the engine. */
    void accept(LogLevel level, String target, String message);
}
