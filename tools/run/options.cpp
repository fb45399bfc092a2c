#include "tools/run/options.h"

#include <cstdlib>
#include <cstring>

const char kUsage[] =
    "usage: sparsecoll-run -n RANKS [--prefix] [--grace SECONDS] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Starts PROGRAM RANKS times on this machine. Each copy finds SPARSECOLL_RANK, SPARSECOLL_SIZE and\n"
    "SPARSECOLL_LAUNCH_DIR in its environment; sparsecoll/launch.h makes a communicator of them.\n"
    "  -n RANKS          how many, 1 to 256; must be given\n"
    "  --grace SECONDS   when a rank fails, the others get so long to end before they are told to (default 5)\n"
    "  --prefix          put \"[rank] \" before every line of output (default: lines come as they are)\n"
    "  --version         print the version and end\n"
    "  --help            print this and end\n"
    "Exit codes: 0 all ranks ended with 0; 3 usage; 126 no process could be started; 127 PROGRAM could not be "
    "started.\n"
    "Else those of the rank that failed first: its status, or 128 + the signal that ended it.\n";

namespace {

bool number(const char* text, int least, int most, int& value) {
  char* end = nullptr;
  const long read = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || read < least || read > most) return false;
  value = static_cast<int>(read);
  return true;
}

}  // namespace

std::string readOptions(int argc, char** argv, Options& options) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string name = argv[i];
    const char* const next = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--") {
      ++i;
      break;
    }
    if (name == "--help" || name == "-h") return "help";
    if (name == "--version") return "version";
    if (name == "--prefix") {
      options.prefix = true;
    } else if (name == "-n") {
      if (!number(next, 1, 256, options.ranks)) return "-n wants a number from 1 to 256";
      ++i;
    } else if (name == "--grace") {
      if (!number(next, 0, 86400, options.graceSeconds)) return "--grace wants a number of seconds";
      ++i;
    } else {
      return "unknown option " + name;
    }
  }
  if (options.ranks == 0) return "-n is missing";
  if (i >= argc) return "no program is named";
  options.program = argv + i;
  return "";
}
