using System;
using System.Collections.Generic;
using System.Threading;
using Microsoft.Win32.SafeHandles;

namespace Coracle
{
    /// <summary>
    /// A handle that knows at once that it was disposed: SafeHandle.IsClosed is so only when the last call that has the handle has ended,
    /// and threads that use a handle in turn would have it for ever.
    /// </summary>
    internal interface IEnds
    {
        /// <summary>Whether Dispose was called.</summary>
        bool IsEnded { get; }
    }

    /// <summary>
    /// A handle of the library. It ends once: by Dispose, or when it is forgotten; and never during a call that has it.
    /// </summary>
    internal abstract class CoreHandle : SafeHandleZeroOrMinusOneIsInvalid, IEnds
    {
        private readonly string name;
        private readonly Action<IntPtr> free;
        private readonly HashSet<Op> running;
        private readonly object reading = new object();
        private volatile bool ended;

        /// <param name="name">the name in messages</param>
        /// <param name="pointer">the handle of C</param>
        /// <param name="free">the function of C that ends it</param>
        /// <param name="endsCalls">whether Dispose ends the calls of other threads</param>
        protected CoreHandle(string name, IntPtr pointer, Action<IntPtr> free, bool endsCalls) : base(true)
        {
            this.name = name;
            this.free = free;
            running = endsCalls ? new HashSet<Op>() : null;
            SetHandle(pointer);
        }

        public bool IsEnded => ended;

        /// <summary>Whether calls have an operation, by which Dispose ends them.</summary>
        internal bool EndsCalls => running != null;

        /// <summary>Keeps the handle for a call. Each use is followed by DangerousRelease.</summary>
        internal void Use()
        {
            bool kept = false;
            try
            {
                if (!ended)
                {
                    DangerousAddRef(ref kept);
                }
            }
            catch (ObjectDisposedException)
            {
                // Ended meanwhile.
            }
            if (!kept)
            {
                throw CoracleException.Of(Code.Misuse, "the " + name + " is closed");
            }
        }

        /// <summary>
        /// Runs a call whose answer the library keeps only until the next one with this handle, and copies the answer: one thread at a time.
        /// A call of another one meanwhile is misuse.
        /// </summary>
        internal T Alone<T>(Func<T> call)
        {
            if (!Monitor.TryEnter(reading))
            {
                throw CoracleException.Of(Code.Misuse, "another thread reads the " + name);
            }
            try
            {
                return call();
            }
            finally
            {
                Monitor.Exit(reading);
            }
        }

        internal void Begin(Op op)
        {
            if (running == null)
            {
                return;
            }
            lock (running)
            {
                running.Add(op);
            }
            // A Dispose that came meanwhile has not seen the operation.
            if (ended)
            {
                op.Cancel();
            }
        }

        internal void End(Op op)
        {
            if (running == null)
            {
                return;
            }
            lock (running)
            {
                running.Remove(op);
            }
        }

        protected override bool ReleaseHandle()
        {
            free(handle);
            return true;
        }

        protected override void Dispose(bool disposing)
        {
            ended |= disposing;
            base.Dispose(disposing);
            if (!disposing)
            {
                return;
            }
            Poller.Forget(this);
            if (running == null)
            {
                return;
            }
            Op[] left;
            lock (running)
            {
                left = new Op[running.Count];
                running.CopyTo(left);
            }
            foreach (Op op in left)
            {
                op.Cancel();
            }
        }
    }

    internal sealed class EngineHandle : CoreHandle
    {
        /// <param name="pointer">the handle of C</param>
        /// <param name="isEphemeral">whether containers end with the handle</param>
        internal EngineHandle(IntPtr pointer, bool isEphemeral) : base("engine", pointer, Native.coracle_close, false)
        {
            IsEphemeral = isEphemeral;
            if (isEphemeral)
            {
                // Containers end with it, so the caller chooses when.
                GC.SuppressFinalize(this);
            }
        }

        /// <summary>Whether containers end with the handle.</summary>
        internal bool IsEphemeral { get; }
    }

    internal sealed class SessionHandle : CoreHandle
    {
        internal SessionHandle(IntPtr pointer) : base("session", pointer, Native.coracle_session_free, true) { }
    }

    internal sealed class StreamHandle : CoreHandle
    {
        internal StreamHandle(IntPtr pointer) : base("stream", pointer, Native.coracle_stream_free, true) { }
    }

    internal sealed class EventsHandle : CoreHandle
    {
        internal EventsHandle(IntPtr pointer) : base("events", pointer, Native.coracle_events_free, false) { }
    }

    internal sealed class ServerHandle : CoreHandle
    {
        internal ServerHandle(IntPtr pointer) : base("server", pointer, Native.coracle_http_server_free, true) { }
    }

    internal sealed class OpHandle : CoreHandle
    {
        /// <summary>NULL, for calls that nothing ends.</summary>
        internal static readonly OpHandle None = new OpHandle(IntPtr.Zero);

        internal OpHandle(IntPtr pointer) : base("operation", pointer, Native.coracle_op_free, false) { }
    }
}
