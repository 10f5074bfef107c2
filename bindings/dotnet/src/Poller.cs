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
        private static readonly object Making = new object();
        private static volatile Poller one;
        private static readonly byte[] Word = { 1, 0, 0, 0, 0, 0, 0, 0 };

        private readonly int wake;
        private readonly List<Watch> watches = new List<Watch>();
        private readonly Thread thread;

        /// <summary>The poller, which the first wait makes. A failure is not kept: the next wait tries again.</summary>
        private static Poller One()
        {
            if (one == null)
            {
                lock (Making)
                {
                    one = one ?? new Poller();
                }
            }
            return one;
        }

        private Poller()
        {
            wake = Libc.EventFd();
            if (wake < 0)
            {
                throw CoracleException.Of(Code.Io, "no eventfd: errno " + Libc.Errno, null, Libc.Errno);
            }
            thread = new Thread(Run) { IsBackground = true, Name = "coracle-poller" };
            thread.Start();
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
                Poller poller = One();
                lock (poller.watches)
                {
                    poller.watches.Remove(this);
                }
                Owner.DangerousRelease();
                if (Thread.CurrentThread != poller.thread)
                {
                    // A poll(2) that goes on would keep a closed socket open for its peer.
                    Libc.Write(poller.wake, Word);
                }
                ready.TrySetResult(true);
            }
        }

        /// <summary>Begins a wait for a descriptor of an owner.</summary>
        internal static Watch Begin(SafeHandle owner, int fd, short events)
        {
            Poller poller = One();
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
            Poller poller = one;
            if (poller == null)
            {
                return;
            }
            List<Watch> ended;
            lock (poller.watches)
            {
                ended = poller.watches.FindAll(watch => ReferenceEquals(watch.Owner, owner));
            }
            ended.ForEach(watch => watch.End());
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
                // One entry for each descriptor: poll(2) refuses more of them than the process may have open.
                var places = new Dictionary<int, int>();
                var entries = new List<Libc.PollEntry> { new Libc.PollEntry { Fd = wake, Events = Libc.Readable } };
                foreach (Watch watch in looked)
                {
                    if (places.TryGetValue(watch.Fd, out int place))
                    {
                        Libc.PollEntry known = entries[place];
                        known.Events |= watch.Events;
                        entries[place] = known;
                    }
                    else
                    {
                        places[watch.Fd] = entries.Count;
                        entries.Add(new Libc.PollEntry { Fd = watch.Fd, Events = watch.Events });
                    }
                }
                Libc.PollEntry[] polled = entries.ToArray();
                // A signal ends it early: the next look follows.
                if (Libc.Poll(polled, -1) <= 0)
                {
                    if (Libc.Errno != Libc.Interrupted)
                    {
                        // No memory for the moment: without a pause this thread would do nothing else.
                        Thread.Sleep(10);
                    }
                    continue;
                }
                if (polled[0].Found != 0)
                {
                    Native.coracle_read_fd((IntPtr)wake, drained, (UIntPtr)drained.Length);
                }
                foreach (Watch watch in looked)
                {
                    // An end and a failure are for every wait, a direction for the waits for that direction.
                    if ((polled[places[watch.Fd]].Found & (watch.Events | ~(Libc.Readable | Libc.Writable))) != 0)
                    {
                        watch.End();
                    }
                }
            }
        }
    }
}
