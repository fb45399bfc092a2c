#!/usr/bin/env bash
# A library may not end its caller's process, write to its standard output, or wait without a deadline. So the objects
# of the library refer to none of the functions below; the waits are allowed to core/wait.cpp, which gives each a
# deadline and a cancel token. cuda/device_memory.cpp waits for the device where cudaFree would.
# usage: banned.sh SOURCE_DIR BUILD_DIR
#        banned.sh --self-test C_COMPILER      (planted objects must be found)
set -euo pipefail
floors=(core host cuda transports selectors collectives src)

# As nm -C prints them: C functions bare, C++ functions with their parameters.
ending='abort|exit|_exit|_Exit|quick_exit|__assert_fail'
printing='stdout|v?printf|puts|putchar|__v?printf_chk|std::cout|fmt::v[0-9]+::vprint\(fmt::.*string_view.*'
waiting='pthread_cond_(wait|timedwait|clockwait)|sem_(wait|timedwait|clockwait)|p?poll|p?select|epoll_p?wait'
waiting+='|u?sleep|nanosleep|clock_nanosleep|std::condition_variable::wait.*|std::this_thread::__?sleep_for.*'
waiting+='|cuda(Stream|Event|Device)Synchronize'
# Futexes: the waits of std::atomic, std::latch and std::future, and the stop of std::jthread.
waiting+='|syscall|std::__atomic_futex_unsigned_base::.*'

# check SOURCE_DIR BUILD_DIR: prints each use, fails if there is one or if there is no object at all.
check() {
  local source_dir=$1 build_dir=$2 checked=0 failed=0 object source banned found
  while read -r object; do
    # <floor>/CMakeFiles/<target>.dir/<file>.o is made from <floor>/<file>; "__" stands for "..".
    source=${object/CMakeFiles\/*.dir\//}
    source=${source%.o}
    source=$(realpath --no-symlinks --canonicalize-missing --relative-to=. "./${source//__\//../}")
    [ -f "$source_dir/$source" ] || continue # left behind by a file that was removed
    banned="$ending|$printing"
    [ "$source" = core/wait.cpp ] || banned+="|$waiting"
    [ "$source" = cuda/device_memory.cpp ] && banned=${banned//|cuda(Stream|Event|Device)Synchronize/|cuda(Stream|Event)Synchronize}
    # nvcc gives device functions a host body that calls exit; nothing calls the body.
    [[ $source == *.cu ]] && banned=${banned//|exit|/|}
    checked=$((checked + 1))
    while read -r found; do
      echo "FAIL: $source refers to $found"
      failed=1
    done < <(nm -C -u "$build_dir/$object" | sed -E 's/^ *[Uvw] //; s/@.*//' | grep -xE "$banned")
  done < <(cd "$build_dir" && find "${floors[@]}" -name '*.o' 2> /dev/null | sort)
  echo "$checked objects checked"
  [ "$checked" -gt 0 ] && [ "$failed" = 0 ]
}

if [ "$1" != --self-test ]; then
  check "$1" "$2"
  exit
fi

compiler=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# plant FILE CODE: a source FILE and the object that CMake would make of it.
plant() {
  rm -rf "${dir:?}"/*
  mkdir -p "$dir/$(dirname "$1")" "$dir/build/core/CMakeFiles/planted.dir"
  echo "$2" > "$dir/$1"
  "$compiler" -x c -c "$dir/$1" -o "$dir/build/core/CMakeFiles/planted.dir/$(basename "$1").o"
}
expect() {
  local outcome=found
  if check "$dir" "$dir/build"; then outcome=clean; fi
  [ "$outcome" = "$1" ] || { echo "FAIL: expected $1, got $outcome"; exit 1; }
}
nap='void nanosleep(void); void nap(void) { nanosleep(); }'
plant core/nap.cpp "$nap" && expect found
plant core/wait.cpp "$nap" && expect clean
plant core/end.cpp 'void exit(int); void end(void) { exit(1); }' && expect found
plant core/wait.cpp 'extern void* stdout; void* out(void) { return stdout; }' && expect found
plant core/good.cpp 'void exiting(void); void good(void) { exiting(); }' && expect clean
rm "$dir/build/core/CMakeFiles/planted.dir/good.cpp.o" && expect found # nothing to check is not a pass
