#!/bin/bash
# package.sh PACKAGE.nupkg [IMAGE.tar]: opens a NuGet package, and runs a program with its files alone: the library is the one inside. Needs root.
set -euo pipefail
package=$(realpath "$1") image=${2-${CORACLE_TEST_IMAGE-}}
cd "$(dirname "$0")"
work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-nupkg.XXXXXX")
trap 'rm -rf "$work"' EXIT
if [ -z "$image" ]; then
  image=$work/busybox.tar
  ../../../tools/make-busybox-image "$image"
fi
image=$(realpath "$image")
passed=0 failed=0
check() {
  local text=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "failed: $text"
  fi
}

# As an SDK lays the files of a package beside a program.
python3 -m zipfile -e "$package" "$work/package"
mkdir "$work/app"
cp "$work/package/lib/netstandard2.1/Coracle.dll" "$work/app/"
cp -r "$work/package/runtimes" "$work/app/"
described() {
  python3 - "$work/package" <<'PYTHON'
import pathlib, sys, xml.etree.ElementTree as tree
top = pathlib.Path(sys.argv[1])
names = {one.tag.rpartition("}")[2]: one.text for one in tree.parse(top / "Coracle.nuspec").getroot()[0]}
assert names["id"] == "Coracle" and names["version"] and (top / names["readme"]).exists(), names
known = {one.get("Extension") for one in tree.parse(top / "[Content_Types].xml").getroot()}
assert {"dll", "xml", "so", "md", "nuspec", "rels"} <= known, known
assert tree.parse(top / "_rels/.rels").getroot()[0].get("Target") == "/Coracle.nuspec"
assert tree.parse(top / "lib/netstandard2.1/Coracle.xml").getroot().find(".//member[@name='T:Coracle.Engine']") is not None
PYTHON
}
check "the package describes itself" described
# The assembly names the standard, and the assemblies of no runtime.
standard() { grep -aq netstandard "$work/app/Coracle.dll" && ! grep -aq System.Private.CoreLib "$work/app/Coracle.dll"; }
check "the assembly is one for the .NET Standard" standard
cat >"$work/program.cs" <<'PROGRAM'
using System;
using Coracle;

static class Program
{
    static int Main(string[] arguments)
    {
        try
        {
            Run(arguments);
            return 0;
        }
        catch (DllNotFoundException)
        {
            return 3;
        }
    }

    static void Run(string[] arguments)
    {
        using (Engine engine = Engine.Open(arguments[0]))
        {
            string image = engine.Images.Load(arguments[1])[0];
            Container box = engine.Containers.Create(new { Image = image, Cmd = new[] { "echo", "hello" }, HostConfig = new { NetworkMode = "none" } });
            using (Session session = box.StartAttached())
            {
                Console.Write(session.Communicate().Text);
            }
            box.Remove();
        }
    }
}
PROGRAM
../mcs core "-r:$work/app/Coracle.dll" -out:"$work/app/program.exe" "$work/program.cs"
runs() { [ "$(env -u CORACLE_LIBRARY -u LD_LIBRARY_PATH timeout 600 ../run core "$work/app/program.exe" "$work/root" "$image")" = hello ]; }
check "a program with the package alone runs a container" runs
# Without the library of the package it gets an exception: no other library was found before.
rm -r "$work/app/runtimes"
lacks() {
  local code=0
  env -u CORACLE_LIBRARY -u LD_LIBRARY_PATH timeout 600 ../run core "$work/app/program.exe" "$work/root" "$image" >/dev/null || code=$?
  [ "$code" = 3 ]
}
[ -e /usr/lib/x86_64-linux-gnu/libcoracle.so.1 ] || [ -e /usr/local/lib/libcoracle.so.1 ] || check "the program without it does not" lacks
rm -rf "/run/coracle/$(printf %s "$work/root" | sha256sum | cut -c 1-16)"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
