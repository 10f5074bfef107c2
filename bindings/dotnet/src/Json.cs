using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Reflection;
using System.Text;
using System.Threading.Tasks;

namespace Coracle
{
    /// <summary>
    /// Reads and writes JSON. The .NET Standard has no reader of its own, and a package for it would be one more that every user has.
    /// </summary>
    internal static class Json
    {
        /// <summary>How deep values may lie in each other: the library allows less.</summary>
        private const int Deepest = 200;

        /// <summary>The namespaces of other readers of JSON: the properties of their values are not the members.</summary>
        private static readonly string[] Others = { "System.Text.Json", "Newtonsoft.Json" };

        internal static string Write(object value)
        {
            var into = new StringBuilder();
            Write(into, value, 0);
            return into.ToString();
        }

        private static void Write(StringBuilder into, object value, int depth)
        {
            if (depth > Deepest)
            {
                throw Wrong("a document is deeper than " + Deepest + " levels, or contains itself");
            }
            if (value == null)
            {
                into.Append("null");
            }
            else if (value is string text)
            {
                Quote(into, text);
            }
            else if (value is bool truth)
            {
                into.Append(truth ? "true" : "false");
            }
            else if (value is Document document)
            {
                WriteMembers(into, document.Members, depth);
            }
            else if (value is IDictionary map)
            {
                WriteMap(into, map, depth);
            }
            else if (value is IEnumerable<KeyValuePair<string, object>> members)
            {
                WriteMembers(into, members, depth);
            }
            else if (value is byte[] bytes)
            {
                Quote(into, Convert.ToBase64String(bytes));
            }
            else if (value is IEnumerable list)
            {
                WriteEach(into, list, depth);
            }
            else
            {
                WriteOther(into, value, depth);
            }
        }

        private static void WriteMap(StringBuilder into, IDictionary map, int depth)
        {
            var members = new List<KeyValuePair<string, object>>();
            foreach (DictionaryEntry one in map)
            {
                members.Add(new KeyValuePair<string, object>(Convert.ToString(one.Key, CultureInfo.InvariantCulture), one.Value));
            }
            WriteMembers(into, members, depth);
        }

        private static void WriteMembers(StringBuilder into, IEnumerable<KeyValuePair<string, object>> members, int depth)
        {
            string before = "{";
            foreach (KeyValuePair<string, object> one in members)
            {
                into.Append(before);
                Quote(into, one.Key);
                into.Append(':');
                Write(into, one.Value, depth + 1);
                before = ",";
            }
            into.Append(before == "{" ? "{}" : "}");
        }

        /// <summary>A list, or a dictionary that is neither of those above, such as IReadOnlyDictionary of a type of its own.</summary>
        private static void WriteEach(StringBuilder into, IEnumerable list, int depth)
        {
            foreach (Type one in list.GetType().GetInterfaces())
            {
                if (one.IsGenericType && one.GetGenericTypeDefinition() == typeof(IEnumerable<>) && IsPair(one.GetGenericArguments()[0]))
                {
                    WriteMembers(into, Pairs(list, one.GetGenericArguments()[0]), depth);
                    return;
                }
            }
            WriteList(into, list, depth);
        }

        private static bool IsPair(Type type) => type.IsGenericType && type.GetGenericTypeDefinition() == typeof(KeyValuePair<,>);

        private static IEnumerable<KeyValuePair<string, object>> Pairs(IEnumerable list, Type pair)
        {
            PropertyInfo key = pair.GetProperty("Key"), value = pair.GetProperty("Value");
            foreach (object one in list)
            {
                yield return new KeyValuePair<string, object>(
                    Convert.ToString(key.GetValue(one), CultureInfo.InvariantCulture), value.GetValue(one));
            }
        }

        private static void WriteList(StringBuilder into, IEnumerable list, int depth)
        {
            string before = "[";
            foreach (object one in list)
            {
                into.Append(before);
                Write(into, one, depth + 1);
                before = ",";
            }
            into.Append(before == "[" ? "[]" : "]");
        }

        private static void WriteOther(StringBuilder into, object value, int depth)
        {
            if (value is float single && !float.IsNaN(single) && !float.IsInfinity(single))
            {
                // A float that became a double would have other digits.
                into.Append(single.ToString("R", CultureInfo.InvariantCulture));
                return;
            }
            if (value is double || value is float)
            {
                double number = Convert.ToDouble(value, CultureInfo.InvariantCulture);
                if (double.IsNaN(number) || double.IsInfinity(number))
                {
                    throw Wrong("a document cannot have the number " + number.ToString(CultureInfo.InvariantCulture));
                }
                into.Append(number.ToString("R", CultureInfo.InvariantCulture));
                return;
            }
            if (value is DateTimeOffset moment)
            {
                Quote(into, Times.Text(moment));
                return;
            }
            if (value is DateTime time)
            {
                Quote(into, Times.Text(time));
                return;
            }
            if (value is TimeSpan length)
            {
                into.Append(Times.Nanos(length).ToString(CultureInfo.InvariantCulture));
                return;
            }
            if (value is Enum || value is char || value is Guid || value is Uri || value is Version)
            {
                Quote(into, value.ToString());
                return;
            }
            if (value is decimal || (value.GetType().IsPrimitive && value is IFormattable))
            {
                into.Append(((IFormattable)value).ToString(null, CultureInfo.InvariantCulture));
                return;
            }
            WriteMembers(into, Properties(value), depth);
        }

        /// <summary>The public properties of an object, such as one of an anonymous type.</summary>
        private static List<KeyValuePair<string, object>> Properties(object value)
        {
            Type type = value.GetType();
            if (value is Delegate || value is MemberInfo || type.IsPointer)
            {
                throw Wrong("a document cannot have a value of the type " + type.FullName);
            }
            if (value is Task)
            {
                // A read of the property Result would wait for the task.
                throw Wrong("a document has a task where its result belongs: await it");
            }
            if (type.Namespace != null && Array.Exists(Others, one => type.Namespace.StartsWith(one, StringComparison.Ordinal)))
            {
                throw Wrong("a document cannot have a value of the type " + type.FullName + ": give its text in JSON in place of the whole document");
            }
            var made = new List<KeyValuePair<string, object>>();
            foreach (PropertyInfo one in type.GetProperties(BindingFlags.Public | BindingFlags.Instance))
            {
                if (one.CanRead && one.GetIndexParameters().Length == 0)
                {
                    made.Add(new KeyValuePair<string, object>(one.Name, ValueOf(one, value)));
                }
            }
            return made;
        }

        private static object ValueOf(PropertyInfo property, object value)
        {
            try
            {
                return property.GetValue(value);
            }
            catch (Exception failed) when (failed is TargetInvocationException || failed is MethodAccessException || failed is NotSupportedException)
            {
                throw Wrong("the property " + property.Name + " of a document cannot be read: " + (failed.InnerException ?? failed).Message);
            }
        }

        private static void Quote(StringBuilder into, string text)
        {
            into.Append('"');
            foreach (char one in text)
            {
                switch (one)
                {
                    case '"': into.Append("\\\""); break;
                    case '\\': into.Append("\\\\"); break;
                    case '\n': into.Append("\\n"); break;
                    case '\r': into.Append("\\r"); break;
                    case '\t': into.Append("\\t"); break;
                    default:
                        // Halves of a pair are written as they are, and by their numbers where the other half may be missing.
                        if (one < ' ' || char.IsSurrogate(one))
                        {
                            into.Append("\\u").Append(((int)one).ToString("x4", CultureInfo.InvariantCulture));
                        }
                        else
                        {
                            into.Append(one);
                        }
                        break;
                }
            }
            into.Append('"');
        }

        private static CoracleException Wrong(string message) => CoracleException.Of(Code.Invalid, message);

        /// <summary>Maps are Dictionary, lists List, numbers long, ulong or double.</summary>
        internal static object Read(string text) => new Reader(text).Whole();

        private sealed class Reader
        {
            private readonly string text;
            private int at;
            private int depth;

            internal Reader(string text)
            {
                this.text = text;
            }

            internal object Whole()
            {
                object made = Value();
                Space();
                if (at != text.Length)
                {
                    throw Broken();
                }
                return made;
            }

            private FormatException Broken() => new FormatException("no JSON at character " + at);

            private void Space()
            {
                while (at < text.Length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t'))
                {
                    at++;
                }
            }

            private char Next()
            {
                Space();
                if (at == text.Length)
                {
                    throw Broken();
                }
                return text[at];
            }

            private void Take(string word)
            {
                if (string.CompareOrdinal(text, at, word, 0, word.Length) != 0)
                {
                    throw Broken();
                }
                at += word.Length;
            }

            private object Word(string word, object value)
            {
                Take(word);
                return value;
            }

            private object Value()
            {
                if (++depth > Deepest)
                {
                    throw Broken();
                }
                try
                {
                    switch (Next())
                    {
                        case '{': return Map();
                        case '[': return List();
                        case '"': return Text();
                        case 't': return Word("true", true);
                        case 'f': return Word("false", false);
                        case 'n': return Word("null", null);
                        default: return Number();
                    }
                }
                finally
                {
                    depth--;
                }
            }

            private Dictionary<string, object> Map()
            {
                var made = new Dictionary<string, object>();
                at++;
                if (Next() == '}')
                {
                    at++;
                    return made;
                }
                for (;;)
                {
                    if (Next() != '"')
                    {
                        throw Broken();
                    }
                    string name = Text();
                    Next();
                    Take(":");
                    made[name] = Value();
                    if (!More('}'))
                    {
                        return made;
                    }
                }
            }

            private List<object> List()
            {
                var made = new List<object>();
                at++;
                if (Next() == ']')
                {
                    at++;
                    return made;
                }
                for (;;)
                {
                    made.Add(Value());
                    if (!More(']'))
                    {
                        return made;
                    }
                }
            }

            /// <summary>Whether a comma follows; else the end does.</summary>
            private bool More(char end)
            {
                char found = Next();
                if (found != ',' && found != end)
                {
                    throw Broken();
                }
                at++;
                return found == ',';
            }

            private string Text()
            {
                var made = new StringBuilder();
                for (at++; ; at++)
                {
                    int from = at;
                    while (at < text.Length && text[at] != '"' && text[at] != '\\')
                    {
                        at++;
                    }
                    made.Append(text, from, at - from);
                    if (at == text.Length)
                    {
                        throw Broken();
                    }
                    if (text[at] == '"')
                    {
                        at++;
                        return made.ToString();
                    }
                    at++;
                    made.Append(Escaped());
                }
            }

            private char Escaped()
            {
                if (at == text.Length)
                {
                    throw Broken();
                }
                switch (text[at])
                {
                    case 'n': return '\n';
                    case 'r': return '\r';
                    case 't': return '\t';
                    case 'b': return '\b';
                    case 'f': return '\f';
                    case 'u':
                        if (at + 4 >= text.Length || !ushort.TryParse(text.Substring(at + 1, 4), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out ushort code))
                        {
                            throw Broken();
                        }
                        at += 4;
                        return (char)code;
                    default: return text[at];
                }
            }

            private object Number()
            {
                int from = at;
                while (at < text.Length && "+-.0123456789eE".IndexOf(text[at]) >= 0)
                {
                    at++;
                }
                string found = text.Substring(from, at - from);
                if (long.TryParse(found, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out long whole))
                {
                    return whole;
                }
                if (ulong.TryParse(found, NumberStyles.None, CultureInfo.InvariantCulture, out ulong big))
                {
                    return big;
                }
                if (double.TryParse(found, NumberStyles.Float, CultureInfo.InvariantCulture, out double number))
                {
                    return number;
                }
                throw Broken();
            }
        }
    }
}
