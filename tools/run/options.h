// What sparsecoll-run is told on its command line.
#pragma once

#include <string>
#include <vector>

#include "tools/run/hosts.h"

constexpr int kForEver = 1'000'000'000;  // seconds: 31 years

struct Options {
  int ranks = 0;
  std::vector<Host> hosts;          // empty: this machine
  std::string launcher = "ssh";     // starts a command on a host; may have arguments
  int port = 29500;                 // MASTER_PORT
  std::vector<std::string> passed;  // further variables for ranks on hosts: NAME or NAME=VALUE
  bool prefix = false;              // "[2] " before every line that rank 2 prints
  int graceSeconds = 5;             // for the other ranks to end on their own once one has failed
  char** program = nullptr;         // with its arguments, ends with nullptr
};

extern const char kUsage[];

// Returns "" or what is wrong; "help" if that was asked for.
std::string readOptions(int argc, char** argv, Options& options);
