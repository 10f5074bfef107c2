using System;

namespace Coracle
{
    /// <summary>The coarse reason of an error, as the C interface has it.</summary>
    public enum Code
    {
        Invalid = Raw.EINVALID,
        Unauthorized = Raw.EUNAUTHORIZED,
        Forbidden = Raw.EFORBIDDEN,
        NotFound = Raw.ENOT_FOUND,
        Conflict = Raw.ECONFLICT,
        Internal = Raw.EINTERNAL,
        Unsupported = Raw.EUNSUPPORTED,
        Unavailable = Raw.EUNAVAILABLE,
        Io = Raw.EIO,
        NoMemory = Raw.ENOMEM,
        Timeout = Raw.ETIMEOUT,
        Cancelled = Raw.ECANCELLED,
        Callback = Raw.ECALLBACK,
        Forked = Raw.EFORKED,
        Panic = Raw.EPANIC,
        Misuse = Raw.EMISUSE,
        Corrupt = Raw.ECORRUPT,
        NotAcceptable = Raw.ENOT_ACCEPTABLE,
    }

    /// <summary>
    /// An error of the engine. Each code that programs ask for has a class of its own. A call that a CancellationToken ends throws an
    /// OperationCanceledException, whose InnerException is a <see cref="CancelledException"/>.
    /// </summary>
    public class CoracleException : Exception
    {
        private readonly Facts facts;

        internal CoracleException(Facts facts) : base(facts.Message, facts.Cause)
        {
            this.facts = facts;
        }

        /// <summary>The coarse reason.</summary>
        public Code Code => facts.Code;

        /// <summary>The HTTP status of such an error, such as 404.</summary>
        public int Status => facts.Status;

        /// <summary>The kernel's number if the kernel refused, else 0.</summary>
        public int Errno => facts.Errno;

        /// <summary>The part of the engine that failed.</summary>
        public string Area => facts.Area;

        /// <summary>The path of the member of a document that is wrong, such as HostConfig.Memory; null: none is.</summary>
        public string Field => Detail["field"] as string;

        /// <summary>More for programs.</summary>
        public Document Detail => facts.Detail ?? Document.Empty;

        /// <summary>An error of this binding's own.</summary>
        internal static CoracleException Of(Code code, string message, Exception cause = null, int errno = 0) =>
            new Facts { Code = code, Status = code == Code.Invalid ? 400 : 500, Errno = errno, Area = "dotnet", Message = message, Cause = cause }.Exception();
    }

    /// <summary>No such container, image, process or file.</summary>
    public sealed class NotFoundException : CoracleException
    {
        internal NotFoundException(Facts facts) : base(facts) { }
    }

    /// <summary>The object's state, or another object, is in the way.</summary>
    public sealed class ConflictException : CoracleException
    {
        internal ConflictException(Facts facts) : base(facts) { }
    }

    /// <summary>A parameter or a document is wrong.</summary>
    public sealed class InvalidException : CoracleException
    {
        internal InvalidException(Facts facts) : base(facts) { }
    }

    /// <summary>The call's deadline passed.</summary>
    public sealed class DeadlineException : CoracleException
    {
        internal DeadlineException(Facts facts) : base(facts) { }
    }

    /// <summary>The call was ended: its handle was closed meanwhile.</summary>
    public sealed class CancelledException : CoracleException
    {
        internal CancelledException(Facts facts) : base(facts) { }
    }

    /// <summary>A handle is closed, or in use where it must not be.</summary>
    public sealed class MisuseException : CoracleException
    {
        internal MisuseException(Facts facts) : base(facts) { }
    }

    /// <summary>The feature is not built in, or this kernel does not support it.</summary>
    public sealed class UnsupportedException : CoracleException
    {
        internal UnsupportedException(Facts facts) : base(facts) { }
    }

    /// <summary>The parts of an error.</summary>
    internal sealed class Facts
    {
        internal Code Code;
        internal int Status;
        internal int Errno;
        internal string Area;
        internal string Message;
        internal Document Detail;
        internal Exception Cause;

        internal CoracleException Exception()
        {
            // A code that this binding does not know is Internal.
            if (!Enum.IsDefined(typeof(Code), Code))
            {
                Code = Code.Internal;
            }
            switch (Code)
            {
                case Code.NotFound: return new NotFoundException(this);
                case Code.Conflict: return new ConflictException(this);
                case Code.Invalid: return new InvalidException(this);
                case Code.Timeout: return new DeadlineException(this);
                case Code.Cancelled: return new CancelledException(this);
                case Code.Misuse: return new MisuseException(this);
                case Code.Unsupported: return new UnsupportedException(this);
                default: return new CoracleException(this);
            }
        }
    }
}
