#!/bin/bash
# run.sh [LIBDIR [IMAGE.tar]]: every program that the README, the pages and the bindings print, and every program of examples/:
# each must end well.
#
# Without LIBDIR a development build is made; without IMAGE the busybox image. Needs root, and `cargo build` before.
set -euo pipefail
cd "$(dirname "$0")/../.."
top=$PWD work=$(mktemp -d "${TMPDIR:-/tmp}/coracle-printed.XXXXXX")
coracle=$top/target/debug/coracle
end() {
  local root id
  tools/registry stop "$work/registry"
  tools/registry stop "$work/pages"
  for root in "$work/root" "$work/own"; do
    for id in $("$coracle" --root "$root" ps -aq 2>/dev/null); do "$coracle" --root "$root" rm -f "$id" >/dev/null || true; done
    # Builds had the root's bridge, which stays for the next start.
    if [ -d "$root" ]; then "$coracle" --root "$root" network release >/dev/null || true; fi
    # The programs name no run directory: it has its name from the root's path.
    rm -rf "/run/coracle/$(printf %s "$root" | sha256sum | cut -c 1-16)"
  done
  rm -rf "$work"
}
trap end EXIT
libdir=${1-}
if [ -z "$libdir" ]; then
  libdir=$work/lib
  PROFILE=dev OUT=$libdir ffi/dist >/dev/null
fi
if [ -n "${2-}" ]; then cp "$2" "$work/busybox.tar"; else tools/make-busybox-image "$work/busybox.tar"; fi
libdir=$(realpath "$libdir")
export CORACLE_LIBRARY=$libdir/libcoracle.so.1 PYTHONPATH=$top/bindings/python PYTHONDONTWRITEBYTECODE=1

rust() { # Linked with the library that the build made, as cargo would.
  local rlib
  rlib=$(find target/debug/deps -name 'libcoracle-*.rlib' -printf '%T@ %p\n' | sort -rn | head -n 1 | cut -d ' ' -f 2)
  rustc --edition 2024 -o "$work/program" --extern "coracle=$rlib" -L dependency=target/debug/deps "$1"
  (cd "$work" && timeout 1800 ./program)
}
c() {
  gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude -o "$work/program" "$1" "-L$libdir" "-Wl,-rpath,$libdir" -lcoracle
  (cd "$work" && timeout 1800 ./program)
  "$coracle" --root "$work/root" rm hello >/dev/null
}
cpp() {
  g++ -std=c++17 -Wall -Wextra -Werror -Iinclude -Ibindings/cpp/include -o "$work/program" "$1" "-L$libdir" "-Wl,-rpath,$libdir" -lcoracle
  (cd "$work" && timeout 1800 ./program)
}
go() { # In a module of its own, beside the binding's.
  mkdir -p "$work/go"
  printf 'module printed\n\ngo 1.23\n\nrequire coracle.dev/go v0.0.0\n\nreplace coracle.dev/go => %s/bindings/go\n' "$top" >"$work/go/go.mod"
  cp "$1" "$work/go/main.go"
  printf '%s\n' "Name: coracle" "Description: the library of this checkout" "Version: 0" "Cflags: -I$top/include" "Libs: -L$libdir -lcoracle" >"$work/coracle.pc"
  # Go keeps what it built, whatever pkg-config says since then: the place is in a variable that Go compares, too.
  (cd "$work/go" && PKG_CONFIG_PATH=$work CGO_ENABLED=1 CGO_LDFLAGS="-O2 -g -L$libdir" command go build -o "$work/program" .) || return
  (cd "$work" && LD_LIBRARY_PATH=$libdir timeout 1800 ./program)
}
js() { # With the package where a program's packages are.
  mkdir -p "$work/node_modules"
  [ -e bindings/node/coracle.node ] || bindings/node/build.sh || return
  ln -sfn "$top/bindings/node" "$work/node_modules/libcoracle"
  (cd "$work" && timeout 1800 node "$1")
}
# Puts the address of the registry that the tests have in place of the one on the page.
pushes() {
  if grep -q localhost:5000 "$1"; then
    [ -e "$work/registry-port" ] || tools/registry start "$work/pages" >"$work/registry-port"
    sed -i "s/localhost:5000/127.0.0.1:$(cat "$work/registry-port")/g" "$1"
  fi
}
java() { # A file of source is a program.
  bindings/java/build.sh "$work/jar" || return
  (cd "$work" && timeout 1800 "$top/bindings/java/java" "$work/jar/coracle.jar" "$1")
}
cs() { # By Mono's compiler, and on .NET.
  bindings/dotnet/build.sh || return
  mkdir -p "$work/cs"
  cp "$(tools/target-dir)/dotnet-binding/Coracle.dll" "$work/cs/"
  bindings/dotnet/mcs core "-r:$work/cs/Coracle.dll" -out:"$work/cs/program.exe" "$1" || return
  (cd "$work" && timeout 1800 "$top/bindings/dotnet/run" core "$work/cs/program.exe")
}
ruby() { (cd "$work" && timeout 1800 env ruby "-I$top/bindings/ruby/lib" "$1"); }
lua() { (cd "$work" && LUA_PATH="$top/bindings/lua/?.lua;$top/bindings/lua/?/init.lua;;" timeout 1800 luajit "$1"); }
php() { (cd "$work" && timeout 1800 env php -d ffi.enable=1 -d "include_path=$top/bindings/php/src" "$1"); }
python() { (cd "$work" && timeout 1800 python3 "$1"); }
shell() {  # Processes that it leaves in the background end with it; the terminal is one whose user leaves at once.
  {
    sed -e "s|^coracle |$coracle --root $work/root |" -e "s|unix:///run/|unix://$work/|" \
      -e 's|^\(.* run .*\)$|echo exit \| script -qec "\1" /dev/null|' -e 's|^DOCKER_HOST|answers; &|' "$1"
  } >"$work/commands"
  cat >"$work/shell" <<SHELL
trap 'left=\$(jobs -p); if [ -n "\$left" ]; then kill \$left || true; fi; wait' EXIT
answers() { for _ in {1..3000}; do if [ -S "$work/coracle.sock" ]; then return; fi; sleep 0.1; done; return 1; }
$(cat "$work/commands")
SHELL
  (cd "$work" && timeout 1800 bash -euo pipefail "$work/shell")
}

passed=0 failed=0
while read -r program; do
  case $program in
    *.rs) kind=rust ;; *.c) kind=c ;; *.py) kind=python ;; *.sh) kind=shell ;; *.go) kind=go ;; *.cpp) kind=cpp ;; *.js) kind=js ;; *.rb) kind=ruby ;; *.lua) kind=lua ;; *.php) kind=php ;; *.java) kind=java ;; *.cs) kind=cs ;;
  esac
  pushes "$program"
  if out=$("$kind" "$program" 2>&1); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'failed: %s\n%s\n' "$program" "$out" >&2
  fi
done < <(python3 tests/printed/programs.py "$work")

# A program of examples/, with the root as its argument; and a text that its output has.
example() {
  local name output
  name=$(basename "${1%.*}")
  case $1 in
    *.rs) set -- "$2" "$top/target/debug/examples/$name" ;;
    *.py) set -- "$2" python3 "$top/$1" ;;
    *.c)
      gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude -o "$work/program" "$1" "-L$libdir" "-Wl,-rpath,$libdir" -lcoracle || return
      set -- "$2" "$work/program"
      ;;
  esac
  output=$(timeout 1800 "${@:2}" "$work/root" </dev/null) || return
  grep -qF -- "$1" <<<"$output" || { printf 'no "%s" in: %s\n' "$1" "$output" && return 1; }
}

# As the tests build them.
cargo build -q --workspace --examples
"$coracle" --root "$work/root" load -i "$work/busybox.tar" >/dev/null
while read -r name text; do
  for file in "examples/rust/$name.rs" "examples/c/$name.c" "examples/python/$name.py"; do
    if out=$(example "$file" "$text" 2>&1); then
      passed=$((passed + 1))
    else
      failed=$((failed + 1))
      printf 'failed: %s\n%s\n' "$file" "$out" >&2
    fi
  done
done <<'EXAMPLES'
run exit code 3
logs line 3
exec pear
events destroy
build built sha256:
EXAMPLES

# A poll loop is for C: the other two languages have threads.
if out=$(example examples/c/poll.c "50 containers stopped, 50 told their exit codes" 2>&1); then
  passed=$((passed + 1))
else
  failed=$((failed + 1))
  printf 'failed: examples/c/poll.c\n%s\n' "$out" >&2
fi

# The programs of examples/ that do a whole job; each checks what a user would see.
has() { grep -qF -- "$1" <<<"$output" || { printf 'no "%s" in: %s\n' "$1" "$output" && return 1; }; }
# On a root of their own: others leave containers. None is left there, neither running nor as a row.
nothing_left() {
  for _ in {1..600}; do
    if [ -z "$("$coracle" --root "$work/own" ps -aq)" ]; then return; fi
    sleep 0.1
  done
  echo "containers are left:" && "$coracle" --root "$work/own" ps -a && return 1
}

jobs_in_c() {
  local runner output
  gcc -std=gnu11 -Wall -Wextra -Werror -Iinclude -o "$work/jobs" examples/c/jobs.c "-L$libdir" "-Wl,-rpath,$libdir" -lcoracle || return
  output=$(printf '%s\n' 'echo "one"' '# a comment' 'exit 7' 'echo two; echo three >&2' | timeout 600 "$work/jobs" "$work/own" 2)
  has '[2] exit code 7: exit 7' && has '    one' && has '    ! three' && has '3 jobs, 1 failed' || return
  # The end of the runner takes all jobs along, whatever ends the runner.
  for _ in 1 2 3 4 5; do echo 'sleep 1000'; done >"$work/list"
  "$work/jobs" "$work/own" 5 <"$work/list" &
  runner=$!
  for _ in {1..600}; do
    if [ "$("$coracle" --root "$work/own" ps -q | wc -l)" = 5 ]; then break; fi
    sleep 0.1
  done
  kill -9 "$runner"
  wait "$runner" 2>/dev/null
  nothing_left
}

supervisor_in_python() {
  local supervisor output line
  service() { printf '{"Image": "busybox", "HostConfig": {"NetworkMode": "none"}, "Cmd": ["sh", "-c", "%s"]}' "$1"; }
  printf '{"clock": %s, "flaky": %s}' "$(service 'echo tick; exec sleep 1000')" "$(service 'exit 3')" >"$work/services.json"
  python3 examples/python/supervisor.py "$work/own" "$work/services.json" >"$work/told" 2>&1 &
  supervisor=$!
  told() {
    for _ in {1..600}; do
      output=$(cat "$work/told")
      if has "$1" >/dev/null; then return; fi
      sleep 0.1
    done
    has "$1"
  }
  # A failing service comes again, with pauses that grow; the other one is left alone.
  for line in 'clock | tick' 'flaky: ended with exit code 3' 'flaky: starts again in 2 s' 'flaky: event die'; do
    if ! told "$line"; then
      kill "$supervisor"
      return 1
    fi
  done
  printf '{"other": %s}' "$(service 'echo new; exec sleep 1000')" >"$work/services.json"
  kill -HUP "$supervisor"
  told 'clock: stops' && told 'other | new'
  kill -TERM "$supervisor"
  wait "$supervisor" || return
  told 'supervisor: everything has stopped' && nothing_left
}

ship_in_rust() {
  local port output
  port=$(tools/registry start "$work/registry") || return
  ship() { output=$(timeout 600 target/debug/examples/ship "$work/own" "$@" 2>&1); }
  ship "$work/busybox.tar" "127.0.0.1:$port/shipped:v1" && has 'pushed busybox:latest to 127.0.0.1' && has ': sha256:' || return
  "$coracle" --root "$work/own" rmi "127.0.0.1:$port/shipped:v1" >/dev/null || return
  ship "127.0.0.1:$port/shipped:v1" "127.0.0.1:$port/again" && has '/again: sha256:' || return
  ship "127.0.0.1:$port/shipped:v1" "$work/shipped.tar" && has "saved 127.0.0.1:$port/shipped:v1" && [ -s "$work/shipped.tar" ]
}

"$coracle" --root "$work/own" load -i "$work/busybox.tar" >/dev/null
for job in jobs_in_c supervisor_in_python ship_in_rust; do
  if out=$("$job" 2>&1); then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'failed: %s\n%s\n' "$job" "$out" >&2
  fi
done

if [ "$passed" -lt 45 ]; then echo "only $passed programs ended well" >&2; failed=$((failed + 1)); fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
