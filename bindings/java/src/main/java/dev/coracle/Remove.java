package dev.coracle;

/** How a container is removed. */
public enum Remove {
    /** It is killed first if it runs. */
    FORCE(Raw.REMOVE_FORCE),
    /** Its anonymous volumes are removed, too. */
    VOLUMES(Raw.REMOVE_VOLUMES),
    /** The id is a link, which is removed. */
    LINK(Raw.REMOVE_LINK);

    final int flag;

    Remove(int flag) {
        this.flag = flag;
    }

    static long flags(Remove... all) {
        long flags = 0;
        for (Remove one : all) {
            flags |= one.flag;
        }
        return flags;
    }
}
