package dev.coracle;

/** The coarse reason of an error, as the C interface has it. */
public enum Code {
    INVALID(Raw.EINVALID),
    UNAUTHORIZED(Raw.EUNAUTHORIZED),
    FORBIDDEN(Raw.EFORBIDDEN),
    NOT_FOUND(Raw.ENOT_FOUND),
    CONFLICT(Raw.ECONFLICT),
    INTERNAL(Raw.EINTERNAL),
    UNSUPPORTED(Raw.EUNSUPPORTED),
    UNAVAILABLE(Raw.EUNAVAILABLE),
    IO(Raw.EIO),
    NO_MEMORY(Raw.ENOMEM),
    TIMEOUT(Raw.ETIMEOUT),
    CANCELLED(Raw.ECANCELLED),
    CALLBACK(Raw.ECALLBACK),
    FORKED(Raw.EFORKED),
    PANIC(Raw.EPANIC),
    MISUSE(Raw.EMISUSE),
    CORRUPT(Raw.ECORRUPT),
    NOT_ACCEPTABLE(Raw.ENOT_ACCEPTABLE);

    private final int number;

    Code(int number) {
        this.number = number;
    }

    /** The number of the C interface. */
    public int number() {
        return number;
    }

    /** A code that this binding does not know is {@link #INTERNAL}. */
    static Code of(long number) {
        for (Code code : values()) {
            if (code.number == number) {
                return code;
            }
        }
        return INTERNAL;
    }
}
