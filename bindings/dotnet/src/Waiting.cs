using System;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>
    /// Waits for descriptors within bounds: for a task, for which no thread waits; or on the calling thread, with tasks that have ended when they
    /// are given, so that such a call needs no thread of the pool.
    /// </summary>
    internal sealed class Waiting : IDisposable
    {
        private readonly Bounds bounds;
        private readonly bool blocking;
        private readonly CancellationTokenSource ended;

        internal Waiting(Bounds bounds, bool blocking)
        {
            this.bounds = bounds.Together();
            this.blocking = blocking;
            if (bounds.IsNone)
            {
                return;
            }
            ended = bounds.Tokens.Length == 0 ? new CancellationTokenSource() : CancellationTokenSource.CreateLinkedTokenSource(bounds.Tokens);
            TimeSpan? left = this.bounds.Left;
            // The timer of a source needs a thread of the pool.
            if (!blocking && left != null && left.Value.TotalMilliseconds < int.MaxValue)
            {
                ended.CancelAfter(TimeSpan.FromMilliseconds(Bounds.Millis(left.Value)));
            }
        }

        private CancellationToken Token => ended == null ? CancellationToken.None : ended.Token;

        /// <summary>Milliseconds to the deadline; -1: there is none, or a far one.</summary>
        private int MillisLeft
        {
            get
            {
                TimeSpan? left = bounds.Left;
                return left == null || left.Value.TotalMilliseconds >= int.MaxValue ? -1 : (int)Bounds.Millis(left.Value);
            }
        }

        /// <summary>Throws if the bounds are reached.</summary>
        internal void Check()
        {
            if (ended == null || (!ended.IsCancellationRequested && bounds.Left != TimeSpan.Zero))
            {
                return;
            }
            bounds.ThrowIfCancelled(CoracleException.Of(Code.Cancelled, "the call was cancelled"));
            throw CoracleException.Of(Code.Timeout, "the call's deadline passed");
        }

        /// <summary>Waits until the descriptor is ready, or its owner is closed.</summary>
        internal async Task Until(SafeHandle owner, int fd, short events)
        {
            Check();
            Poller.Watch watch = Begin(owner, fd, events);
            try
            {
                using (Token.Register(watch.End, false))
                {
                    if (blocking)
                    {
                        watch.Ready.Wait(MillisLeft);
                    }
                    else
                    {
                        await watch.Ready.ConfigureAwait(false);
                    }
                }
            }
            finally
            {
                // The deadline passed, or the thread was interrupted.
                watch.End();
            }
            Check();
        }

        /// <summary>Waits until one of two descriptors of an owner is ready, or the owner is closed. No thread waits.</summary>
        internal async Task UntilEither(SafeHandle owner, int fd, int other, short events)
        {
            Check();
            Poller.Watch one = Begin(owner, fd, events), two = null;
            try
            {
                two = Begin(owner, other, events);
                using (Token.Register(one.End, false))
                {
                    await Task.WhenAny(one.Ready, two.Ready).ConfigureAwait(false);
                }
            }
            finally
            {
                one.End();
                two?.End();
            }
            Check();
        }

        /// <summary>Enters a gate that one call at a time passes.</summary>
        internal async Task Enter(SemaphoreSlim gate)
        {
            Check();
            try
            {
                if (blocking)
                {
                    if (!gate.Wait(MillisLeft, Token))
                    {
                        throw CoracleException.Of(Code.Timeout, "the call's deadline passed");
                    }
                }
                else
                {
                    await gate.WaitAsync(Token).ConfigureAwait(false);
                }
            }
            catch (OperationCanceledException)
            {
                Check();
                throw;
            }
        }

        private static Poller.Watch Begin(SafeHandle owner, int fd, short events)
        {
            try
            {
                return Poller.Begin(owner, fd, events);
            }
            catch (ObjectDisposedException closed)
            {
                throw CoracleException.Of(Code.Misuse, "closed while another thread waited", closed);
            }
        }

        public void Dispose() => ended?.Dispose();
    }
}
