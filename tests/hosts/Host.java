import java.util.Arrays;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicInteger;

/** Host LIBRARY ROOT RUN IMAGE: the main job on a thread of a JVM, which goes on with its own work and children. */
public class Host {
    static native String look(String root, String run);

    static native int job(String root, String run, String image);

    static int passed, failed;

    static void check(boolean fact, String text) {
        if (fact) passed++;
        else failed++;
        if (!fact) System.out.println("failed: " + text);
    }

    /** Without pipes: a JVM closes those of a child after waitFor has answered, so that a look would find some of them. */
    static int child() throws Exception {
        return new ProcessBuilder("sh", "-c", "exit 7").inheritIO().start().waitFor();
    }

    public static void main(String[] args) throws Exception {
        System.load(args[0]);
        // Facts that the runtime sets up at its first use.
        child();
        String before = look(args[1], args[2]);
        AtomicInteger result = new AtomicInteger(-2);
        Thread thread = new Thread(() -> result.set(job(args[1], args[2], args[3])));
        thread.start();
        while (thread.isAlive()) {
            check(child() == 7, "the status of a child of its own");
            byte[][] garbage = new byte[100][10000];
            System.gc();
            check(garbage.length == 100, "");
            thread.join(50);
        }
        check(result.get() == 0, "the main job: " + result);
        // Threads that end may take a moment.
        String after = look(args[1], args[2]);
        for (int i = 0; i < 6000 && !before.equals(after); i++) {
            Thread.sleep(50);
            after = look(args[1], args[2]);
        }
        TreeSet<String> gone = new TreeSet<>(Arrays.asList(before.split("\n")));
        TreeSet<String> come = new TreeSet<>(Arrays.asList(after.split("\n")));
        come.removeAll(Arrays.asList(before.split("\n")));
        gone.removeAll(Arrays.asList(after.split("\n")));
        check(gone.isEmpty() && come.isEmpty(), "gone " + gone + ", come " + come);
        check(child() == 7, "children work as before");
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }
}
