using System;
using System.Runtime.InteropServices;

namespace Coracle
{
    /// <summary>The C library's functions that descriptors need.</summary>
    internal static class Libc
    {
        internal const short Readable = 1;
        internal const short Writable = 4;
        internal const int Interrupted = 4;
        internal const int Again = 11;
        internal const int BrokenPipe = 32;

        private const int CloseOnExec = 0x80000;
        private const int NonBlocking = 0x800;
        private const int DontWait = 0x40;
        private const int NoSignal = 0x4000;
        private const int EndOfWrites = 1;

        [StructLayout(LayoutKind.Sequential)]
        internal struct PollEntry
        {
            internal int Fd;
            internal short Events;
            internal short Found;
        }

        /// <summary>The number of the failure of the last call.</summary>
        internal static int Errno => Marshal.GetLastWin32Error();

        internal static int Open(string path)
        {
            if (path == null)
            {
                throw new ArgumentNullException(nameof(path));
            }
            return open(Call.Bytes(path), CloseOnExec);
        }

        internal static int Close(int fd) => close(fd);

        internal static int EventFd() => eventfd(0, CloseOnExec | NonBlocking);

        internal static int Poll(PollEntry[] entries, int ms) => poll(entries, (UIntPtr)entries.Length, ms);

        /// <summary>What of those, and of an end or a failure, a descriptor is ready for now.</summary>
        internal static short Ready(int fd, short events)
        {
            var entries = new[] { new PollEntry { Fd = fd, Events = events } };
            return Poll(entries, 0) > 0 ? entries[0].Found : (short)0;
        }

        internal static bool IsReady(int fd, short events) => Poll(new[] { new PollEntry { Fd = fd, Events = events } }, 0) > 0;

        internal static void Write(int fd, byte[] bytes) => write(fd, bytes, (UIntPtr)bytes.Length);

        /// <summary>Sends without SIGPIPE, and without waiting.</summary>
        internal static int Send(int fd, byte[] bytes, int offset, int count) =>
            (int)send(fd, ref bytes[offset], (UIntPtr)count, DontWait | NoSignal);

        /// <summary>Ends the bytes that a socket sends.</summary>
        internal static int EndWrites(int fd) => shutdown(fd, EndOfWrites);

        [DllImport("libc", SetLastError = true)]
        private static extern int open(byte[] path, int flags);

        [DllImport("libc", SetLastError = true)]
        private static extern int close(int fd);

        [DllImport("libc", SetLastError = true)]
        private static extern int eventfd(uint value, int flags);

        [DllImport("libc", SetLastError = true)]
        private static extern int poll([In, Out] PollEntry[] entries, UIntPtr count, int ms);

        [DllImport("libc", SetLastError = true)]
        private static extern IntPtr write(int fd, byte[] bytes, UIntPtr count);

        [DllImport("libc", SetLastError = true)]
        private static extern IntPtr send(int fd, ref byte bytes, UIntPtr count, int flags);

        [DllImport("libc", SetLastError = true)]
        private static extern int shutdown(int fd, int how);
    }
}
