using System;
using System.Runtime.InteropServices;

namespace Coracle
{
    /// <summary>coracle_open_options.</summary>
    [StructLayout(LayoutKind.Sequential)]
    internal sealed class OptionsStruct
    {
        internal UIntPtr Size = (UIntPtr)32;
        internal IntPtr RunDir;
        internal IntPtr ConfigJson;
        internal ulong Flags;
    }

    /// <summary>coracle_io.</summary>
    [StructLayout(LayoutKind.Sequential)]
    internal sealed class IoStruct
    {
        internal UIntPtr Size = (UIntPtr)32;
        internal ulong Flags;
        internal int FdIn;
        internal int FdOut;
        internal int FdErr;
        internal ushort Rows;
        internal ushort Cols;
    }

    /// <summary>coracle_frame.</summary>
    [StructLayout(LayoutKind.Sequential)]
    internal struct FrameStruct
    {
        internal const int Length = 40;

        internal UIntPtr Size;
        internal int Channel;
        internal long Nanos;
        internal IntPtr Data;
        internal UIntPtr Count;
    }

    /// <summary>coracle_result.</summary>
    [StructLayout(LayoutKind.Sequential)]
    internal struct ResultStruct
    {
        internal const int Length = 48;

        internal UIntPtr Size;
        internal int Code;
        internal IntPtr Id;
        internal IntPtr Json;
        internal IntPtr Session;
        internal IntPtr Stream;
    }
}
