using System;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>Waits for a descriptor within bounds. No thread waits.</summary>
    internal sealed class Waiting : IDisposable
    {
        private readonly Bounds bounds;
        private readonly CancellationTokenSource ended;

        internal Waiting(Bounds bounds)
        {
            this.bounds = bounds.Together();
            if (bounds.IsNone)
            {
                return;
            }
            ended = bounds.Tokens.Length == 0 ? new CancellationTokenSource() : CancellationTokenSource.CreateLinkedTokenSource(bounds.Tokens);
            TimeSpan? left = this.bounds.Left;
            if (left != null && left.Value.TotalMilliseconds < int.MaxValue)
            {
                ended.CancelAfter(TimeSpan.FromMilliseconds(Bounds.Millis(left.Value)));
            }
        }

        /// <summary>Throws if the bounds are reached.</summary>
        internal void Check()
        {
            if (ended == null || !ended.IsCancellationRequested)
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
            Poller.Watch watch;
            try
            {
                watch = Poller.Begin(owner, fd, events);
            }
            catch (ObjectDisposedException closed)
            {
                throw CoracleException.Of(Code.Misuse, "closed while another thread waited", closed);
            }
            using (ended == null ? default(CancellationTokenRegistration) : ended.Token.Register(watch.End, false))
            {
                await watch.Ready.ConfigureAwait(false);
            }
            Check();
        }

        public void Dispose() => ended?.Dispose();
    }
}
