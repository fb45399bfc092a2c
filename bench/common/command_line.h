// What the command lines of the programs of this folder have in common: --version, defaults in --help, exit codes.
#pragma once

#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "bench/common/errors.h"
#include "bench/common/version.h"

namespace bench {

// Before the first option is added.
inline void beginOptions(CLI::App& app, const std::string& footer = "") {
  app.get_formatter()->column_width(26);
  app.option_defaults()->always_capture_default();
  app.set_version_flag("--version", versionText(app.get_name()), "print the library's version and end");
  app.footer(footer + (footer.empty() ? "" : "\n") + kExitCodes);
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
    throw UsageError(std::string(error.what()) + "\n" + app.get_name() + " --help lists the options");
  }
  return true;
}

}  // namespace bench
