// What a rank is started by: a program with its arguments, and variables, here or through a launcher on another host.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/run/options.h"

struct Command {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> variables;  // to be set for the process that is started here
  bool remote = false;  // its standard input takes names of signals, a line each, and its end ends the rank
};

class Commands {
 public:
  // folder: where the ranks of this host meet.
  Commands(const Options& options, std::string folder);
  Command of(int rank) const;

 private:
  Command elsewhere(int rank) const;

  const Options& options_;
  const std::string folder_;
  std::string job_;
  std::vector<int> hosts_;   // by rank
  std::vector<int> locals_;  // by rank: its number on its host
};
