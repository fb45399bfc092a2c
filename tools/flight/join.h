// The recordings of all ranks side by side: who held up whom, who called something else, who has left nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tools/flight/recording.h"

namespace flight {

// Recordings of one communicator, by rank.
struct Group {
  std::string communicator, name, transport;
  int ranks = 0;
  std::map<int, Recording> of;

  std::vector<int> here() const;
  std::vector<int> missing() const;
  int64_t writtenNs() const;  // when its latest file was written, since 1970
};

// The latest last. The later file counts where a rank has several. note: is told of what was left out.
std::vector<Group> groupsOf(std::vector<Recording> recordings, std::vector<std::string>& notes);

struct Finding {
  enum class Kind { kLag, kMismatch, kFailure, kMissing, kWait };
  Kind kind = Kind::kLag;
  std::vector<int> ranks;  // that it is about
  std::optional<uint64_t> sequence;
  std::string text;
};
const char* nameOf(Finding::Kind kind);

// The most telling first. Empty: nothing is wrong as far as the files tell.
std::vector<Finding> findingsOf(const Group& group);

}  // namespace flight
