package dev.coracle;

/** A standard stream of a process. */
public enum Channel {
    STDIN(Raw.STDIN),
    STDOUT(Raw.STDOUT),
    STDERR(Raw.STDERR);

    final int number;

    Channel(int number) {
        this.number = number;
    }

    static Channel of(int number) {
        return number == Raw.STDERR ? STDERR : number == Raw.STDIN ? STDIN : STDOUT;
    }
}
