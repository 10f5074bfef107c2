#!/bin/bash
# build.sh [OUT]: makes OUT/Coracle.dll (target/dotnet-binding) of the sources, for the .NET Standard 2.1, and OUT/mono/Coracle.dll, for Mono. Where
# an SDK of .NET is at hand `dotnet build` makes the first; else mcs does, against the assemblies of a runtime, and the script `standard` has it
# name the standard in their place. With both newer than the sources it does nothing. A runtime that is not there is left out.
set -euo pipefail
out=$(realpath -m "${1:-$("$(dirname "$0")/../../tools/target-dir")/dotnet-binding}")
cd "$(dirname "$0")"
mkdir -p "$out/mono"

# current FILE
current() { [ -e "$1" ] && [ -z "$(find build.sh mcs standard Coracle.csproj src -newer "$1" -print -quit)" ]; }

standard() {
  if root=$(./runtime 2>/dev/null) && [ -d "$root/sdk" ]; then
    "$root/dotnet" build -v q --nologo -c Release -f netstandard2.1 -o "$out" Coracle.csproj >/dev/null
    return
  fi
  # An assembly has its name from the file's; another build may be at work.
  local new
  new=$(mktemp -d "$out/new.XXXXXX")
  ./mcs core -target:library -doc:"$new/Coracle.xml" -out:"$new/Coracle.dll" src/*.cs
  ./standard "$new/Coracle.dll"
  mv "$new/Coracle.xml" "$new/Coracle.dll" "$out/"
  rmdir "$new"
}

if ./runtime >/dev/null 2>&1; then current "$out/Coracle.dll" || standard; fi
if command -v mono >/dev/null; then
  current "$out/mono/Coracle.dll" || ./mcs mono -target:library -out:"$out/mono/Coracle.dll" src/*.cs
fi
