using System;
using System.Collections.Concurrent;
using System.Runtime.InteropServices;
using System.Threading;

namespace Coracle
{
    /// <summary>
    /// The functions that the library calls. Their user is a number of an object that is kept here: C holds no reference of .NET. Nothing is
    /// thrown into C.
    /// </summary>
    internal static class Callbacks
    {
        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        private delegate long ReadFunction(IntPtr user, IntPtr room, UIntPtr count);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        private delegate int ProgressFunction(IntPtr user, IntPtr record);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        private delegate void LogFunction(IntPtr user, int level, IntPtr target, IntPtr message);

        [UnmanagedFunctionPointer(CallingConvention.Cdecl)]
        private delegate void DropFunction(IntPtr user);

        private static readonly ConcurrentDictionary<long, object> Objects = new ConcurrentDictionary<long, object>();
        private static long next;

        // C has the addresses of these for ever.
        private static readonly ReadFunction KeptRead = OnRead;
        private static readonly ProgressFunction KeptProgress = OnProgress;
        private static readonly LogFunction KeptLog = OnLog;
        private static readonly DropFunction KeptDrop = OnDrop;

        internal static readonly IntPtr Read = Marshal.GetFunctionPointerForDelegate(KeptRead);
        internal static readonly IntPtr Progress = Marshal.GetFunctionPointerForDelegate(KeptProgress);
        internal static readonly IntPtr Log = Marshal.GetFunctionPointerForDelegate(KeptLog);
        internal static readonly IntPtr Drop = Marshal.GetFunctionPointerForDelegate(KeptDrop);

        /// <summary>How many objects are kept, for tests.</summary>
        internal static int Kept => Objects.Count;

        internal static IntPtr Keep(object kept)
        {
            long user = Interlocked.Increment(ref next);
            Objects[user] = kept;
            return (IntPtr)user;
        }

        internal static void Forget(IntPtr user) => Objects.TryRemove((long)user, out _);

        private static object Found(IntPtr user) => Objects.TryGetValue((long)user, out object found) ? found : null;

        private static long OnRead(IntPtr user, IntPtr room, UIntPtr count)
        {
            try
            {
                return Found(user) is Source source ? source.Read(room, (long)count) : -1;
            }
            catch (Exception)
            {
                return -1;
            }
        }

        private static int OnProgress(IntPtr user, IntPtr record)
        {
            try
            {
                return Found(user) is Op op ? op.Told(Call.Borrowed(record)) : 0;
            }
            catch (Exception)
            {
                return 1;
            }
        }

        private static void OnLog(IntPtr user, int level, IntPtr target, IntPtr message)
        {
            try
            {
                (Found(user) as LogSink)?.Invoke((LogLevel)level, Call.Borrowed(target), Call.Borrowed(message));
            }
            catch (Exception)
            {
                // A sink has nobody to tell.
            }
        }

        private static void OnDrop(IntPtr user) => Forget(user);
    }
}
