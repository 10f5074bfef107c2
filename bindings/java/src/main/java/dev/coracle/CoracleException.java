package dev.coracle;

/** An error of the engine. Each code that programs ask for has a class of its own. */
public class CoracleException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final Code code;
    private final int status;
    private final int errno;
    private final String area;
    private final transient Document detail;

    CoracleException(Facts facts) {
        super(facts.message, facts.cause);
        code = facts.code;
        status = facts.status;
        errno = facts.errno;
        area = facts.area;
        detail = facts.detail;
    }

    /** The coarse reason. */
    public final Code code() {
        return code;
    }

    /** The HTTP status of such an error, such as 404. */
    public final int status() {
        return status;
    }

    /** The kernel's number if the kernel refused, else 0. */
    public final int errno() {
        return errno;
    }

    /** The part of the engine that failed. */
    public final String area() {
        return area;
    }

    /** The path of the member of a document that is wrong, such as HostConfig.Memory; null: none is. */
    public final String field() {
        return detail().text("field");
    }

    /** More for programs. */
    public final Document detail() {
        return detail == null ? Document.EMPTY : detail;
    }

    /** No such container, image, process or file. */
    public static final class NotFound extends CoracleException {
        private static final long serialVersionUID = 1;

        NotFound(Facts facts) {
            super(facts);
        }
    }

    /** The object's state, or another object, is in the way. */
    public static final class Conflict extends CoracleException {
        private static final long serialVersionUID = 1;

        Conflict(Facts facts) {
            super(facts);
        }
    }

    /** A parameter or a document is wrong. */
    public static final class Invalid extends CoracleException {
        private static final long serialVersionUID = 1;

        Invalid(Facts facts) {
            super(facts);
        }
    }

    /** The call's deadline passed. */
    public static final class Timeout extends CoracleException {
        private static final long serialVersionUID = 1;

        Timeout(Facts facts) {
            super(facts);
        }
    }

    /** The call was cancelled, or its thread was interrupted: then the cause is an InterruptedException. */
    public static final class Cancelled extends CoracleException {
        private static final long serialVersionUID = 1;

        Cancelled(Facts facts) {
            super(facts);
        }
    }

    /** A handle is closed, or in use where it must not be. */
    public static final class Misuse extends CoracleException {
        private static final long serialVersionUID = 1;

        Misuse(Facts facts) {
            super(facts);
        }
    }

    /** The feature is not built in, or this kernel does not support it. */
    public static final class Unsupported extends CoracleException {
        private static final long serialVersionUID = 1;

        Unsupported(Facts facts) {
            super(facts);
        }
    }

    /** The parts of an error. */
    record Facts(Code code, int status, int errno, String area, String message, Document detail, Throwable cause) {
        CoracleException exception() {
            return switch (code) {
                case NOT_FOUND -> new NotFound(this);
                case CONFLICT -> new Conflict(this);
                case INVALID -> new Invalid(this);
                case TIMEOUT -> new Timeout(this);
                case CANCELLED -> new Cancelled(this);
                case MISUSE -> new Misuse(this);
                case UNSUPPORTED -> new Unsupported(this);
                default -> new CoracleException(this);
            };
        }

        Facts because(Code other, Throwable reason) {
            return new Facts(other, status, errno, area, message, detail, reason);
        }
    }

    /** An error of this binding's own. */
    static CoracleException of(Code code, String message, Throwable cause) {
        int status = code == Code.INVALID ? 400 : 500;
        return new Facts(code, status, 0, "java", message, Document.EMPTY, cause).exception();
    }

    static CoracleException of(Code code, String message) {
        return of(code, message, null);
    }
}
