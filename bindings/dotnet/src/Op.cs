using System;
using System.Collections.Generic;
using System.Threading;

namespace Coracle
{
    /// <summary>The operation of a call.</summary>
    internal sealed class Op
    {
        private readonly List<CoreHandle> users;
        private readonly List<CancellationTokenRegistration> registrations = new List<CancellationTokenRegistration>();
        private Action<Progress> listener;
        private IntPtr user;
        private volatile bool cancelled;

        /// <param name="handle">the operation of C</param>
        /// <param name="users">the handles whose Dispose ends the operation's call</param>
        internal Op(OpHandle handle, List<CoreHandle> users)
        {
            Handle = handle;
            this.users = users;
        }

        /// <summary>Sets the bounds of the call. The maker of the operation ends it, also if this fails.</summary>
        /// <param name="bounds">the bounds</param>
        /// <param name="begins">whether the call is begun: such a call tells no progress</param>
        internal void Begin(Bounds bounds, bool begins)
        {
            if (bounds.Listener != null && !begins)
            {
                listener = bounds.Listener;
                user = Callbacks.Keep(this);
                Native.coracle_op_set_progress(Handle, Callbacks.Progress, user, IntPtr.Zero, 0);
            }
            TimeSpan? left = bounds.Left;
            if (left != null)
            {
                Native.coracle_op_set_timeout(Handle, Bounds.Millis(left.Value));
            }
            foreach (CancellationToken token in bounds.Tokens)
            {
                // A token that is cancelled already cancels the operation here.
                registrations.Add(token.Register(Cancel, false));
            }
            users.ForEach(handle => handle.Begin(this));
        }

        internal OpHandle Handle { get; }

        /// <summary>Whether the call is to end by a cancellation.</summary>
        internal bool IsCancelled => cancelled;

        /// <summary>The exception of the caller's own listener.</summary>
        internal Exception Thrown { get; private set; }

        internal void Cancel()
        {
            cancelled = true;
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
                    listener(new Progress(Document.Parse(record)));
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
            users.ForEach(handle => handle.End(this));
            registrations.ForEach(one => one.Dispose());
            Handle.Dispose();
            Callbacks.Forget(user);
        }
    }
}
