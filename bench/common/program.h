// How every program of this folder ends.
#pragma once

#include <cstdio>
#include <exception>
#include <new>

#include "bench/common/errors.h"

namespace bench {

// The exit code of a program: what it returns, or, with one line on stderr, what it throws.
template <class Program>
int exitCodeOf(const char* name, Program&& program) {
  const auto fail = [name](const char* what, ExitCode code) {
    std::fprintf(stderr, "%s: %s\n", name, what);  // fmt::print would throw where stderr cannot be written
    return code;
  };
  try {
    return program();
  } catch (const UsageError& error) {
    return fail(error.what(), kUsage);
  } catch (const std::bad_alloc&) {
    return fail("not enough memory", kEnvironment);
  } catch (const std::exception& error) {
    return fail(error.what(), kEnvironment);
  }
}

}  // namespace bench
