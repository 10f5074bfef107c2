using System;
using System.Collections;
using System.Collections.Generic;
using System.Linq;

namespace Coracle.Tests
{
    /// <summary>A result that is not the expected one.</summary>
    internal sealed class Wrong : Exception
    {
        internal Wrong(string message) : base(message) { }
    }

    /// <summary>Compares a result with the expected one.</summary>
    internal static class Matching
    {
        /// <summary>Values in the form that a parsed document has.</summary>
        internal static object Plain(object value)
        {
            if (value is Document document)
            {
                return document.Members;
            }
            if (value is int number)
            {
                return (long)number;
            }
            if (value == null || value is string || value is IDictionary)
            {
                return value;
            }
            return value is IEnumerable list ? list.Cast<object>().Select(Plain).ToList() : value;
        }

        internal static void Match(object expected, object got, string where)
        {
            if (expected is List<object> list)
            {
                if (!(got is List<object> found) || found.Count != list.Count)
                {
                    throw Wrong(expected, got, where);
                }
                for (int at = 0; at < list.Count; at++)
                {
                    Match(list[at], found[at], where + "[" + at + "]");
                }
            }
            else if (expected is Dictionary<string, object> map)
            {
                foreach (KeyValuePair<string, object> one in map)
                {
                    Member(one, expected, got, where);
                }
            }
            else if (!Equals(expected, got))
            {
                throw Wrong(expected, got, where);
            }
        }

        private static void Member(KeyValuePair<string, object> one, object expected, object got, string where)
        {
            if (one.Key.StartsWith("$", StringComparison.Ordinal))
            {
                if (!Holds(one.Key, one.Value, got))
                {
                    throw Wrong(expected, got, where);
                }
            }
            else if (got is IReadOnlyDictionary<string, object> found)
            {
                found.TryGetValue(one.Key, out object member);
                Match(one.Value, member, where + "." + one.Key);
            }
            else
            {
                throw Wrong(expected, got, where);
            }
        }

        private static Wrong Wrong(object expected, object got, string where)
        {
            string text = Json.Write(got);
            return new Wrong((where.Length == 0 ? "result" : where) + ": wanted " + Json.Write(expected) + ", got " + text.Substring(0, Math.Min(text.Length, 600)));
        }

        private static bool Matches(object expected, object got)
        {
            try
            {
                Match(expected, got, "");
                return true;
            }
            catch (Wrong)
            {
                return false;
            }
        }

        private static long Length(object got) =>
            got is string text ? text.Length : got is IReadOnlyDictionary<string, object> map ? map.Count : got is List<object> list ? list.Count : 0;

        private static bool Holds(string key, object value, object got)
        {
            switch (key)
            {
                case "$has": return got is string text && text.Contains((string)value);
                case "$above": return got != null && Convert.ToDouble(got) > Convert.ToDouble(value);
                case "$len": return Length(got) == (long)value;
                case "$len_above": return Length(got) > (long)value;
                case "$not": return got != null && !value.Equals(got);
                case "$one_of": return ((List<object>)value).Contains(got);
                case "$contains": return got is List<object> list && list.Any(one => Matches(value, one));
                default: throw new Wrong("no matcher " + key);
            }
        }
    }
}
