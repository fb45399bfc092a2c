// How the programs of this folder end. Scripts rely on the numbers.
#pragma once

#include <stdexcept>

namespace bench {

enum ExitCode { kGood = 0, kAssertionFailed = 1, kWrongData = 2, kUsage = 3, kEnvironment = 4 };

inline constexpr const char* kExitCodes =
    "Exit codes: 0 good, 1 an assertion failed, 2 wrong data, 3 usage, 4 the machine or the library could not do it.";

// The command line asks for something that does not exist.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The machine or the library could not do what was asked.
struct EnvironmentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace bench
