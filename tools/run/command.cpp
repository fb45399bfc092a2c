#include "tools/run/command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <sstream>
#include <string_view>

extern char** environ;

namespace {

// Of this process's variables, what ranks elsewhere get as well.
constexpr std::string_view kPassedOn[] = {"SPARSECOLL_", "UCX_", "NCCL_"};

// The shell there becomes the program. Beside it waits another one for what comes from here, names of signals, and for
// the end of it. Then, or when the program has ended, all that it has started is told to end, and two seconds later
// made to.
constexpr const char* kWatcher =
    "exec 3<&0; { trap '' HUP INT QUIT TERM USR1 USR2; k() { kill -s \"$1\" -- -$$ || kill -s \"$1\" $$; }; "
    "while read -r s; do k \"$s\"; done; k TERM; sleep 2; k KILL; } <&3 >/dev/null 2>&1 & exec env";

std::string drawName() {
  std::random_device random;
  std::ostringstream name;
  for (int word = 0; word < 4; ++word) name << std::hex << random();
  return name.str();
}

// As one word of a shell's line.
std::string shellWord(const std::string& word) {
  std::string text(1, '\'');
  for (const char c : word) c == '\'' ? text.append("'\\''") : text.append(1, c);
  text.push_back('\'');
  return text;
}

std::string withoutUser(const std::string& host) { return host.substr(host.find('@') + 1); }

// Before a variable may be given twice: later ones win.
std::vector<std::string> passedOn(const std::vector<std::string>& named) {
  std::vector<std::string> all;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view variable = *one;
    const bool meant = std::ranges::any_of(kPassedOn, [&](auto prefix) { return variable.starts_with(prefix); });
    if (meant && !variable.starts_with("SPARSECOLL_LAUNCH_DIR=")) all.emplace_back(variable);
  }
  for (const std::string& name : named) {
    const char* const value = std::getenv(name.c_str());
    if (name.find('=') != std::string::npos)
      all.push_back(name);
    else if (value != nullptr)
      all.push_back(name + "=" + value);
  }
  return all;
}

}  // namespace

Commands::Commands(const Options& options, std::string folder)
    : options_(options), folder_(std::move(folder)), job_(drawName()) {
  hosts_ = options.hosts.empty() ? std::vector<int>(static_cast<size_t>(options.ranks), 0)
                                 : placed(options.hosts, options.ranks);
  std::vector<int> counts(std::max<size_t>(options.hosts.size(), 1));
  for (const int host : hosts_) locals_.push_back(counts[static_cast<size_t>(host)]++);
}

Command Commands::of(int rank) const {
  if (!options_.hosts.empty()) return elsewhere(rank);
  Command command;
  for (char** word = options_.program; *word != nullptr; ++word) command.words.emplace_back(*word);
  const std::string size = std::to_string(options_.ranks);
  command.variables = {{"SPARSECOLL_RANK", std::to_string(rank)},
                       {"SPARSECOLL_SIZE", size},
                       {"SPARSECOLL_LOCAL_RANK", std::to_string(rank)},
                       {"SPARSECOLL_LOCAL_SIZE", size},
                       {"SPARSECOLL_LAUNCH_DIR", folder_}};
  return command;
}

Command Commands::elsewhere(int rank) const {
  const int own = hosts_[static_cast<size_t>(rank)];
  const std::string number = std::to_string(rank);
  const std::string size = std::to_string(options_.ranks);
  const std::string local = std::to_string(locals_[static_cast<size_t>(rank)]);
  const std::string localSize = std::to_string(std::count(hosts_.begin(), hosts_.end(), own));
  std::vector<std::string> variables = passedOn(options_.passed);
  for (const std::string& prefix : {std::string("SPARSECOLL_"), std::string()}) {
    const bool torch = prefix.empty();
    variables.push_back(prefix + "RANK=" + number);
    variables.push_back(prefix + (torch ? "WORLD_SIZE=" : "SIZE=") + size);
    variables.push_back(prefix + "LOCAL_RANK=" + local);
    variables.push_back(prefix + (torch ? "LOCAL_WORLD_SIZE=" : "LOCAL_SIZE=") + localSize);
  }
  variables.push_back("SPARSECOLL_JOB=" + job_);
  variables.push_back("MASTER_ADDR=" + withoutUser(options_.hosts[static_cast<size_t>(hosts_[0])].name));
  variables.push_back("MASTER_PORT=" + std::to_string(options_.port));
  std::string script = "cd ";
  script.append(shellWord(std::filesystem::current_path().string())).append(" || exit 126; ").append(kWatcher);
  for (const std::string& variable : variables) script.append(" ").append(shellWord(variable));
  for (char** word = options_.program; *word != nullptr; ++word) script.append(" ").append(shellWord(*word));
  script += " 3<&- </dev/null";
  Command command;
  command.remote = true;
  std::istringstream launcher(options_.launcher);
  for (std::string word; launcher >> word;) command.words.push_back(word);
  command.words.push_back(options_.hosts[static_cast<size_t>(own)].name);
  command.words.push_back(std::string("exec sh -c ").append(shellWord(script)));
  return command;
}
