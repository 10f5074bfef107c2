using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading;

namespace Coracle
{
    /// <summary>The bounds of the calls of an object: their deadline, their cancellation, and the listener to their progress.</summary>
    internal sealed class Bounds
    {
        internal static readonly Bounds None = new Bounds(null, null, new CancellationToken[0], null);

        private static readonly Stopwatch Clock = Stopwatch.StartNew();

        private readonly TimeSpan? timeout;
        private readonly TimeSpan? end;

        private Bounds(TimeSpan? timeout, TimeSpan? end, CancellationToken[] tokens, Action<Progress> listener)
        {
            this.timeout = timeout;
            this.end = end;
            Tokens = tokens;
            Listener = listener;
        }

        internal CancellationToken[] Tokens { get; }

        internal Action<Progress> Listener { get; }

        /// <summary>Whether nothing ends the calls, and nobody listens.</summary>
        internal bool IsNone => timeout == null && end == null && Tokens.Length == 0 && Listener == null;

        /// <summary>How long a call that begins now may last; null: without a bound.</summary>
        internal TimeSpan? Left => end == null ? timeout : Max(TimeSpan.Zero, end.Value - Clock.Elapsed);

        /// <summary>With Timeout.InfiniteTimeSpan nothing bounds the calls, as everywhere in .NET.</summary>
        internal Bounds Within(TimeSpan time) => new Bounds(time == Timeout.InfiniteTimeSpan ? (TimeSpan?)null : time, null, Tokens, Listener);

        /// <summary>Bounds for several calls that last, together, as long as one may.</summary>
        internal Bounds Together()
        {
            if (end != null || timeout == null)
            {
                return this;
            }
            TimeSpan now = Clock.Elapsed;
            // A far time is as good as no bound.
            TimeSpan? until = timeout.Value > TimeSpan.MaxValue - now ? (TimeSpan?)null : now + Max(TimeSpan.Zero, timeout.Value);
            return new Bounds(null, until, Tokens, Listener);
        }

        internal Bounds CancelledBy(CancellationToken token)
        {
            if (!token.CanBeCanceled)
            {
                return this;
            }
            var all = new List<CancellationToken>(Tokens) { token };
            return new Bounds(timeout, end, all.ToArray(), Listener);
        }

        internal Bounds Telling(Action<Progress> listener) => new Bounds(timeout, end, Tokens, listener);

        /// <summary>Milliseconds, rounded up.</summary>
        internal static long Millis(TimeSpan time)
        {
            long ticks = time.Ticks;
            return ticks <= 0 ? 0 : ticks / TimeSpan.TicksPerMillisecond + (ticks % TimeSpan.TicksPerMillisecond == 0 ? 0 : 1);
        }

        /// <summary>Throws if one of the tokens is cancelled.</summary>
        internal void ThrowIfCancelled(CoracleException failed)
        {
            if (failed.Code != Code.Cancelled)
            {
                return;
            }
            foreach (CancellationToken token in Tokens)
            {
                if (token.IsCancellationRequested)
                {
                    throw new OperationCanceledException(failed.Message, failed, token);
                }
            }
        }

        private static TimeSpan Max(TimeSpan one, TimeSpan other) => one > other ? one : other;
    }
}
