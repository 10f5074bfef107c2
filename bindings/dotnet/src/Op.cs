using System;
using System.Threading;

namespace Coracle
{
    /// <summary>The operation of a call.</summary>
    internal sealed class Op
    {
        private readonly Bounds bounds;
        private readonly IntPtr user;
        private readonly CancellationTokenRegistration[] registrations;

        internal Op(OpHandle handle, Bounds bounds)
        {
            Handle = handle;
            this.bounds = bounds;
            if (bounds.Listener != null)
            {
                user = Callbacks.Keep(this);
                Native.coracle_op_set_progress(handle, Callbacks.Progress, user, IntPtr.Zero, 0);
            }
            TimeSpan? left = bounds.Left;
            if (left != null)
            {
                Native.coracle_op_set_timeout(handle, Bounds.Millis(left.Value));
            }
            registrations = new CancellationTokenRegistration[bounds.Tokens.Length];
            for (int at = 0; at < registrations.Length; at++)
            {
                // A token that is cancelled already cancels the operation here.
                registrations[at] = bounds.Tokens[at].Register(Cancel, false);
            }
        }

        internal OpHandle Handle { get; }

        /// <summary>The exception of the caller's own listener.</summary>
        internal Exception Thrown { get; private set; }

        internal void Cancel()
        {
            try
            {
                Native.coracle_op_cancel(Handle);
            }
            catch (ObjectDisposedException)
            {
                // The call has ended.
            }
        }

        /// <summary>The answer of the progress function.</summary>
        internal int Told(string record)
        {
            if (Thrown == null && record != null)
            {
                try
                {
                    bounds.Listener(new Progress(Document.Parse(record)));
                }
                catch (Exception own)
                {
                    Thrown = own;
                }
            }
            return Thrown == null ? 0 : 1;
        }

        internal void End()
        {
            foreach (CancellationTokenRegistration one in registrations)
            {
                one.Dispose();
            }
            Handle.Dispose();
            Callbacks.Forget(user);
        }
    }
}
