// The hosts that ranks are to run on.
#pragma once

#include <string>
#include <string_view>
#include <vector>

struct Host {
  std::string name;  // as the launcher gets it: may begin with "user@"
  int slots = 1;     // most ranks there
};

// "a,b:4": hosts and their slots. Returns "" or what is wrong, as all of these do; the hosts are appended.
std::string readHostList(std::string_view text, std::vector<Host>& hosts);
// A file with a host a line, as mpirun reads them: "name", "name:4", "name slots=4"; "#" begins a comment.
std::string readHostFile(const char* path, std::vector<Host>& hosts);

// Each rank's host, by number: the hosts are filled one after the other. ranks: at most the sum of the slots.
std::vector<int> placed(const std::vector<Host>& hosts, int ranks);
