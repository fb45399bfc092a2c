// What the command lines of the programs of this folder have in common: --version, defaults in --help, exit codes,
// and how numbers are read.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "bench/common/errors.h"
#include "bench/common/number.h"
#include "bench/common/version.h"

namespace bench {

// Before the first option is added.
inline void beginOptions(CLI::App& app, const std::string& footer = "") {
  app.get_formatter()->column_width(26);
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", versionText(app.get_name()), "print the library's version and end");
  app.footer(footer + (footer.empty() ? "" : "\n") + kExitCodes);
}

// For options whose values are numbers, each of them if they are a list. CLI11's own checks take NaN for any number
// and -1 for a large one.
template <class Number>
CLI::Validator within(Number least, Number most) {
  const std::string range = fmt::format("{} to {}", least, most);
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<Number> number = numberIn<Number>(text);
        return number && *number >= least && *number <= most ? ""
                                                             : fmt::format("{} is not a number from {}", text, range);
      },
      "[" + range + "]");
}

// Entries to send over elements.
inline CLI::Validator densities() {
  return CLI::Validator(
      [](std::string& text) {
        const std::optional<double> number = numberIn<double>(text);
        return number && *number > 0 && *number <= 1 ? "" : text + " is not a number above 0 and at most 1";
      },
      "(0 to 1]");
}

// False if all there was to do was to print the help or the version. Throws UsageError.
inline bool parseArguments(CLI::App& app, int argc, const char* const* argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::CallForVersion& version) {
    std::cout << version.what() << "\n";
    return false;
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string(error.what()) + "; " + app.get_name() + " --help lists the options");
  }
  return true;
}

}  // namespace bench
