using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>One thread waits for all descriptors that this program waits for.</summary>
    internal sealed class Poller
    {
        private static readonly Lazy<Poller> One = new Lazy<Poller>(() => new Poller());
        private static readonly byte[] Word = { 1, 0, 0, 0, 0, 0, 0, 0 };

        private readonly int wake;
        private readonly List<Watch> watches = new List<Watch>();

        private Poller()
        {
            wake = Libc.EventFd();
            if (wake < 0)
            {
                throw CoracleException.Of(Code.Io, "no eventfd: errno " + Libc.Errno, null, Libc.Errno);
            }
            new Thread(Run) { IsBackground = true, Name = "coracle-poller" }.Start();
        }

        /// <summary>A wait for a descriptor, which keeps the owner of the descriptor.</summary>
        internal sealed class Watch
        {
            internal SafeHandle Owner;
            internal int Fd;
            internal short Events;
            private readonly TaskCompletionSource<bool> ready = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
            private int ended;

            /// <summary>Comes to its end when the descriptor is ready, or the wait is ended.</summary>
            internal Task Ready => ready.Task;

            /// <summary>Ends the wait; more than once is fine.</summary>
            internal void End()
            {
                if (Interlocked.Exchange(ref ended, 1) != 0)
                {
                    return;
                }
                Poller poller = One.Value;
                lock (poller.watches)
                {
                    poller.watches.Remove(this);
                }
                Owner.DangerousRelease();
                ready.TrySetResult(true);
            }
        }

        /// <summary>Begins a wait for a descriptor of an owner.</summary>
        internal static Watch Begin(SafeHandle owner, int fd, short events)
        {
            Poller poller = One.Value;
            bool kept = false;
            owner.DangerousAddRef(ref kept);
            var made = new Watch { Owner = owner, Fd = fd, Events = events };
            lock (poller.watches)
            {
                poller.watches.Add(made);
            }
            Libc.Write(poller.wake, Word);
            if (((IEnds)owner).IsEnded)
            {
                // Closed meanwhile: nobody else ends the wait.
                made.End();
            }
            return made;
        }

        /// <summary>Ends every wait for descriptors of an owner.</summary>
        internal static void Forget(SafeHandle owner)
        {
            if (!One.IsValueCreated)
            {
                return;
            }
            List<Watch> ended;
            lock (One.Value.watches)
            {
                ended = One.Value.watches.FindAll(one => ReferenceEquals(one.Owner, owner));
            }
            ended.ForEach(one => one.End());
        }

        private void Run()
        {
            var drained = new byte[8];
            for (;;)
            {
                Watch[] looked;
                lock (watches)
                {
                    looked = watches.ToArray();
                }
                var entries = new Libc.PollEntry[looked.Length + 1];
                entries[0] = new Libc.PollEntry { Fd = wake, Events = Libc.Readable };
                for (int at = 0; at < looked.Length; at++)
                {
                    entries[at + 1] = new Libc.PollEntry { Fd = looked[at].Fd, Events = looked[at].Events };
                }
                // A signal ends it early: the next look follows.
                if (Libc.Poll(entries, -1) <= 0)
                {
                    continue;
                }
                if (entries[0].Found != 0)
                {
                    Native.coracle_read_fd((IntPtr)wake, drained, (UIntPtr)drained.Length);
                }
                for (int at = 0; at < looked.Length; at++)
                {
                    if (entries[at + 1].Found != 0)
                    {
                        looked[at].End();
                    }
                }
            }
        }
    }
}
