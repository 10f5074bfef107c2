using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;

namespace Coracle.Tests
{
    /// <summary>Small tars: of texts by name, and back.</summary>
    internal static class Tars
    {
        private const int Block = 512;

        private static void Put(byte[] header, int at, string text) => Encoding.UTF8.GetBytes(text).CopyTo(header, at);

        private static byte[] Header(string name, int size)
        {
            var made = new byte[Block];
            Put(made, 0, name);
            Put(made, 100, "0000644\0");
            Put(made, 108, "0000000\0");
            Put(made, 116, "0000000\0");
            Put(made, 124, Convert.ToString(size, 8).PadLeft(11, '0') + "\0");
            Put(made, 136, "00000000000\0");
            Put(made, 148, "        ");
            Put(made, 156, "0");
            Put(made, 257, "ustar\0" + "00");
            Put(made, 148, Convert.ToString(made.Sum(one => one), 8).PadLeft(6, '0') + "\0 ");
            return made;
        }

        /// <summary>A tar of texts.</summary>
        internal static byte[] Of(Dictionary<string, object> files)
        {
            var made = new MemoryStream();
            foreach (KeyValuePair<string, object> one in files)
            {
                byte[] data = Encoding.UTF8.GetBytes((string)one.Value);
                made.Write(Header(one.Key, data.Length), 0, Block);
                made.Write(data, 0, data.Length);
                made.Write(new byte[Block], 0, (Block - data.Length % Block) % Block);
            }
            made.Write(new byte[2 * Block], 0, 2 * Block);
            return made.ToArray();
        }

        private static string Field(byte[] header, int at, int length) => Encoding.UTF8.GetString(header, at, length).Split('\0')[0].Trim();

        /// <summary>The small files of a tar.</summary>
        internal static Dictionary<string, object> Files(Stream tar)
        {
            var whole = new MemoryStream();
            tar.CopyTo(whole);
            byte[] bytes = whole.ToArray();
            var made = new Dictionary<string, object>();
            for (int at = 0; at + Block <= bytes.Length && bytes[at] != 0;)
            {
                var header = new byte[Block];
                Buffer.BlockCopy(bytes, at, header, 0, Block);
                int size = Convert.ToInt32(Field(header, 124, 12), 8);
                if ((header[156] == '0' || header[156] == 0) && size < 4096)
                {
                    made[Field(header, 0, 100)] = Encoding.UTF8.GetString(bytes, at + Block, size);
                }
                at += Block + (size + Block - 1) / Block * Block;
            }
            return made;
        }
    }
}
