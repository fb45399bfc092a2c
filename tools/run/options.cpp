#include "tools/run/options.h"

#include <charconv>
#include <cstring>
#include <string_view>

const char kUsage[] =
    "usage: sparsecoll-run [-n RANKS] [--hosts NAMES | --hostfile FILE] [options] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Starts PROGRAM RANKS times, on this machine or on hosts. Each copy finds its place in the environment;\n"
    "sparsecollCommInitEnv makes a communicator of them.\n"
    "  -n RANKS          how many, 1 to 256; default with hosts: one a slot\n"
    "  --hosts NAMES     names with commas between, host:SLOTS for more than one rank there\n"
    "  --hostfile FILE   the same, one a line: host, host:SLOTS or host slots=SLOTS; # begins a comment\n"
    "  --launcher CMD    starts a line of shell on a host: CMD HOST LINE (default ssh)\n"
    "  --port PORT       MASTER_PORT of the ranks on hosts; rank 0 listens at one of the 16 behind it (default 29500)\n"
    "  -x NAME[=VALUE]   give this variable to the ranks on hosts, too, besides SPARSECOLL_*, UCX_* and NCCL_*\n"
    "  --grace SECONDS   when a rank fails, the others get so long to end before they are told to (default 5;\n"
    "                    inf: as long as they need)\n"
    "  --prefix          put \"[rank] \" before every line of output (default: lines come as they are)\n"
    "  --version         print the version and end\n"
    "  --help            print this and end\n"
    "Exit codes: 0 all ranks ended with 0; 3 usage; 126 no process could be started; 127 PROGRAM could not be "
    "started.\n"
    "Else those of the rank that failed first: its status, or 128 + the signal that ended it.\n";

namespace {

std::string number(const char* name, const char* text, int least, int most, int& value) {
  const char* const end = text + std::strlen(text);
  const auto [last, error] = std::from_chars(text, end, value);
  if (error == std::errc() && last == end && value >= least && value <= most) return "";
  return std::string(name) + " wants a number from " + std::to_string(least) + " to " + std::to_string(most);
}

// An option that takes a value.
struct Valued {
  const char* name;
  std::string (*take)(const char* name, const char* value, Options& options);
};

constexpr Valued kValued[] = {
    {"-n", [](const char* name, const char* value, Options& o) { return number(name, value, 1, 256, o.ranks); }},
    {"--hosts", [](const char*, const char* value, Options& o) { return readHostList(value, o.hosts); }},
    {"--hostfile", [](const char*, const char* value, Options& o) { return readHostFile(value, o.hosts); }},
    {"--launcher",
     [](const char* name, const char* value, Options& o) {
       o.launcher = value;
       const bool blank = o.launcher.find_first_not_of(' ') == std::string::npos;
       return blank ? std::string(name) + " wants a command" : "";
     }},
    {"--port", [](const char* name, const char* value, Options& o) { return number(name, value, 1, 65518, o.port); }},
    {"-x",
     [](const char* name, const char* value, Options& o) {
       o.passed.emplace_back(value);
       return *value == '\0' || *value == '=' ? std::string(name) + " wants the name of a variable" : "";
     }},
    {"--grace",
     [](const char* name, const char* value, Options& o) {
       if (std::string_view(value) != "inf") return number(name, value, 0, 86400, o.graceSeconds);
       o.graceSeconds = kForEver;
       return std::string();
     }},
};

std::string settle(Options& options) {
  int slots = 0;
  for (const Host& host : options.hosts) slots += host.slots;
  if (options.hosts.empty()) return options.ranks == 0 ? "-n is missing" : "";
  if (options.ranks == 0) options.ranks = slots;
  if (options.ranks > slots)
    return "the hosts have " + std::to_string(slots) + " slots, -n asks for " + std::to_string(options.ranks);
  return options.ranks > 256 ? "at most 256 ranks can be" : "";
}

}  // namespace

std::string readOptions(int argc, char** argv, Options& options) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    const std::string_view name = argv[i];
    if (name == "--") {
      ++i;
      break;
    }
    if (name == "--help" || name == "-h") return "help";
    if (name == "--version") return "version";
    if (name == "--prefix") {
      options.prefix = true;
      continue;
    }
    const Valued* found = nullptr;
    for (const Valued& one : kValued)
      if (name == one.name) found = &one;
    if (found == nullptr) return "unknown option " + std::string(name);
    if (std::string wrong = found->take(found->name, i + 1 < argc ? argv[i + 1] : "", options); !wrong.empty())
      return wrong;
    ++i;
  }
  if (std::string wrong = settle(options); !wrong.empty()) return wrong;
  if (i >= argc) return "no program is named";
  options.program = argv + i;
  return "";
}
