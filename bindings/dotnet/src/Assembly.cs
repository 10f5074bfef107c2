using System.Reflection;
using System.Runtime.CompilerServices;

[assembly: AssemblyTitle("Coracle")]
[assembly: AssemblyVersion("0.1.0.0")]
[assembly: InternalsVisibleTo("coracle-tests")]
