using System;
using System.Collections.Generic;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

namespace Coracle
{
    /// <summary>The frame of one call: its operation, the memory of its arguments, and whatever it gives.</summary>
    internal sealed class Call : IDisposable
    {
        // Places for answers.
        internal IntPtr Error;
        internal IntPtr OutId;
        internal IntPtr OutJson;
        internal IntPtr OutHandle;
        internal int OutNumber = -1;
        internal FrameStruct Frame;
        internal ResultStruct Result;

        // Half of a surrogate pair would name something else.
        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);

        private readonly Bounds bounds;
        private readonly bool begins;
        private readonly List<CoreHandle> used = new List<CoreHandle>();
        private List<SafeHandle> kept;
        private List<IntPtr> allocated;
        private Op op;
        private Source source;

        /// <param name="bounds">the bounds of the call</param>
        /// <param name="begins">whether the call is begun with CORACLE_OP_NONBLOCK</param>
        internal Call(Bounds bounds, bool begins = false)
        {
            Loader.Ensure();
            this.bounds = bounds;
            this.begins = begins;
            Frame.Size = (UIntPtr)FrameStruct.Length;
            Result.Size = (UIntPtr)ResultStruct.Length;
        }

        /// <summary>The operation, which then outlives the call; the handles that end it by their Dispose still do.</summary>
        internal Op TakeOp()
        {
            Op taken = op;
            op = null;
            return taken;
        }

        public void Dispose()
        {
            op?.End();
            foreach (CoreHandle handle in used)
            {
                handle.DangerousRelease();
            }
            kept?.ForEach(handle => handle.DangerousRelease());
            // Answers that nobody took.
            Taken(ref OutId);
            Taken(ref OutJson);
            if (allocated != null)
            {
                allocated.ForEach(Marshal.FreeHGlobal);
            }
        }

        // ---- arguments

        /// <summary>A handle, which the call keeps until its end.</summary>
        internal T Of<T>(T handle) where T : CoreHandle
        {
            handle.Use();
            used.Add(handle);
            return handle;
        }

        /// <summary>The number of a descriptor of the caller's, which no Dispose and no garbage collector closes during the call.</summary>
        internal int Kept(SafeHandle descriptor)
        {
            if (descriptor == null)
            {
                return -1;
            }
            bool added = false;
            try
            {
                if (!descriptor.IsInvalid && !(descriptor is IEnds known && known.IsEnded))
                {
                    descriptor.DangerousAddRef(ref added);
                }
            }
            catch (ObjectDisposedException)
            {
                // Closed meanwhile.
            }
            if (!added)
            {
                throw CoracleException.Of(Code.Misuse, "a descriptor of the call is closed");
            }
            kept = kept ?? new List<SafeHandle>();
            kept.Add(descriptor);
            return checked((int)(long)descriptor.DangerousGetHandle());
        }

        internal OpHandle Op()
        {
            if (op == null)
            {
                if (!begins && bounds.IsNone && !used.Exists(handle => handle.EndsCalls))
                {
                    return OpHandle.None;
                }
                using (var making = new Call(Bounds.None))
                {
                    Raw.OpNew(making, begins ? (ulong)Raw.OP_NONBLOCK : 0);
                    op = new Op(new OpHandle(making.OutHandle), used);
                }
                op.Begin(bounds, begins);
            }
            return op.Handle;
        }

        /// <summary>A text with a NUL at its end; null for null.</summary>
        internal byte[] Text(string text) => Bytes(text);

        /// <summary>A text with a NUL at its end; null for null. A NUL within, and half of a surrogate pair, are refused.</summary>
        internal static byte[] Bytes(string text)
        {
            if (text == null)
            {
                return null;
            }
            if (text.IndexOf('\0') >= 0)
            {
                throw CoracleException.Of(Code.Invalid, "a text has a NUL in it: \"" + text.Replace("\0", "\\0") + "\"");
            }
            try
            {
                var bytes = new byte[Strict.GetByteCount(text) + 1];
                Strict.GetBytes(text, 0, text.Length, bytes, 0);
                return bytes;
            }
            catch (EncoderFallbackException)
            {
                throw CoracleException.Of(Code.Invalid, "a text has half of a surrogate pair in it");
            }
        }

        private IntPtr Allocated(string text)
        {
            byte[] bytes = Text(text);
            if (bytes == null)
            {
                return IntPtr.Zero;
            }
            IntPtr at = Marshal.AllocHGlobal(bytes.Length);
            allocated = allocated ?? new List<IntPtr>();
            allocated.Add(at);
            Marshal.Copy(bytes, 0, at, bytes.Length);
            return at;
        }

        internal static UIntPtr Count(Array values) => (UIntPtr)(values == null ? 0 : values.Length);

        internal OptionsStruct Options(OpenOptions options)
        {
            if (options == null)
            {
                return null;
            }
            return new OptionsStruct
            {
                RunDir = Allocated(options.RunDirectory),
                ConfigJson = Allocated(Document.Write(options.Configuration)),
                Flags = options.Flags,
            };
        }

        internal IoStruct Io(ProcessIo io)
        {
            if (io == null)
            {
                return null;
            }
            return new IoStruct
            {
                Flags = io.Direct ? (ulong)Raw.IO_DIRECT : 0,
                FdIn = Kept(io.Stdin),
                FdOut = Kept(io.Stdout),
                FdErr = Kept(io.Stderr),
                Rows = io.Rows,
                Cols = io.Cols,
            };
        }

        internal IntPtr Reader(Source from)
        {
            source = from;
            return from == null ? IntPtr.Zero : from.Function;
        }

        internal IntPtr User(Source from) => from == null ? IntPtr.Zero : from.UserOf(this);

        // ---- answers

        /// <summary>The status, or the count; a failure is thrown.</summary>
        internal long Answered(long status)
        {
            if (status >= 0)
            {
                return status;
            }
            CoracleException failed = Failure(status, Error);
            Exception own = source?.Thrown ?? op?.Thrown;
            if (own != null)
            {
                // The caller's own exception comes as it is, with the place where it was thrown.
                ExceptionDispatchInfo.Capture(own).Throw();
            }
            bounds.ThrowIfCancelled(failed);
            throw failed;
        }

        /// <summary>A text that stays the library's.</summary>
        internal static string Borrowed(IntPtr at) => Marshal.PtrToStringUTF8(at);

        /// <summary>An id that the library gave, and that is freed.</summary>
        internal string Id() => Taken(ref OutId);

        internal string Json() => Taken(ref OutJson);

        internal string BorrowedJson()
        {
            string borrowed = Borrowed(OutJson);
            OutJson = IntPtr.Zero;
            return borrowed;
        }

        /// <summary>The answer of a call that was begun, in the places of one that was not.</summary>
        internal void TakeResult()
        {
            OutNumber = Result.Code;
            OutId = Result.Id;
            OutJson = Result.Json;
            OutHandle = Result.Session != IntPtr.Zero ? Result.Session : Result.Stream;
        }

        internal byte[] FrameBytes()
        {
            var made = new byte[checked((int)Frame.Count)];
            if (made.Length != 0)
            {
                Marshal.Copy(Frame.Data, made, 0, made.Length);
            }
            return made;
        }

        private static string Taken(ref IntPtr place)
        {
            IntPtr at = place;
            place = IntPtr.Zero;
            if (at == IntPtr.Zero)
            {
                return null;
            }
            try
            {
                return Borrowed(at);
            }
            finally
            {
                Native.coracle_free(at);
            }
        }

        private static CoracleException Failure(long status, IntPtr error)
        {
            if (error == IntPtr.Zero)
            {
                string name = Borrowed(Native.coracle_status_name((int)status));
                return new Facts { Code = (Code)status, Status = 500, Area = "", Message = name }.Exception();
            }
            try
            {
                return new Facts
                {
                    Code = (Code)Native.coracle_error_code(error),
                    Status = Native.coracle_error_http_status(error),
                    Errno = Native.coracle_error_errno(error),
                    Area = Borrowed(Native.coracle_error_area(error)),
                    Message = Borrowed(Native.coracle_error_message(error)),
                    Detail = Document.Parse(Borrowed(Native.coracle_error_detail(error))),
                }.Exception();
            }
            finally
            {
                Native.coracle_error_free(error);
            }
        }
    }
}
