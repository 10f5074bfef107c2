using System;
using System.Diagnostics;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

/// <summary>Host ROOT RUN IMAGE: the main job on a thread of .NET, which goes on with its own work and children. libjob.so is on the library path.</summary>
internal static class Host
{
    private static int passed, failed;

    [DllImport("libjob.so")]
    private static extern IntPtr host_look(byte[] root, byte[] run);

    [DllImport("libjob.so")]
    private static extern int host_job(byte[] root, byte[] run, byte[] image, int report);

    [DllImport("libjob.so")]
    private static extern void host_free(IntPtr text);

    private static void Check(bool fact, string text)
    {
        if (fact)
        {
            passed++;
        }
        else
        {
            failed++;
            Console.WriteLine("failed: " + text);
        }
    }

    private static int Child()
    {
        using (Process child = Process.Start(new ProcessStartInfo("sh", "-c \"exit 7\"") { UseShellExecute = false }))
        {
            child.WaitForExit();
            return child.ExitCode;
        }
    }

    private static string[] Look(byte[] root, byte[] run)
    {
        IntPtr text = host_look(root, run);
        string[] lines = Marshal.PtrToStringAnsi(text).Split('\n');
        host_free(text);
        return lines;
    }

    private static int Main(string[] arguments)
    {
        byte[][] texts = arguments.Select(text => Encoding.UTF8.GetBytes(text + "\0")).ToArray();
        byte[] root = texts[0], run = texts[1], image = texts[2];
        // Facts that the runtime sets up at its first use.
        Child();
        string[] before = Look(root, run);
        int result = -2;
        var thread = new Thread(() => result = host_job(root, run, image, 2));
        thread.Start();
        do
        {
            Check(Child() == 7, "the status of a child of its own");
            GC.Collect();
        }
        while (!thread.Join(50));
        Check(result == 0, "the main job: " + result);
        // Threads that end may take a moment.
        string[] after = Look(root, run);
        for (int at = 0; at < 6000 && !before.SequenceEqual(after); at++)
        {
            Thread.Sleep(50);
            after = Look(root, run);
        }
        Check(
            before.SequenceEqual(after),
            "gone " + string.Join(", ", before.Except(after)) + ", come " + string.Join(", ", after.Except(before)));
        Check(Child() == 7, "children work as before");
        Console.WriteLine(passed + " passed, " + failed + " failed");
        return failed == 0 ? 0 : 1;
    }
}
