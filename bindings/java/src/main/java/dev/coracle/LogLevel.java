package dev.coracle;

/** The gravity of a message of the library. */
public enum LogLevel {
    ERROR(Raw.LOG_ERROR),
    WARN(Raw.LOG_WARN),
    INFO(Raw.LOG_INFO),
    DEBUG(Raw.LOG_DEBUG);

    private final int number;

    LogLevel(int number) {
        this.number = number;
    }

    int number() {
        return number;
    }

    static LogLevel of(int number) {
        for (LogLevel level : values()) {
            if (level.number == number) {
                return level;
            }
        }
        return DEBUG;
    }
}
