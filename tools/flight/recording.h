// What one rank's flight recorder has left in a file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace flight {

// The file is not there, or cannot be read.
struct UnreadableFile : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// It holds no recording, or half of one.
struct DamagedFile : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Entry {
  uint64_t number = 0;
  std::optional<uint64_t> sequence;  // none: a call outside of operations, such as CommShrink
  std::string call;
  std::string preset, selector, collective;  // or empty
  uint64_t tag = 0, n = 0, k = 0;
  std::string plan;
  int64_t startNs = 0;  // wall clock of the rank's host, as all times
  std::optional<int64_t> roundNs, endNs;
  uint64_t rounds = 0;
  uint64_t sentBytes = 0, receivedBytes = 0;
  std::optional<std::string> result;  // none: under way
  std::optional<int> peer;
  std::vector<int> waitsFor;

  bool underWay() const { return !result; }
  bool succeeded() const { return result == "success"; }
};

struct Failure {
  std::string result;
  int peer = -1;
  uint64_t sequence = 0;
  std::string text;
};

struct Recording {
  std::string path;
  std::string communicator, name, host, transport;
  int rank = 0, ranks = 1;
  int64_t pid = 0;
  int64_t writtenNs = 0;
  std::optional<Failure> failure;
  std::vector<Entry> entries;  // the oldest first

  // The latest operation; nullptr: none is remembered.
  const Entry* latest() const;
  const Entry* find(uint64_t sequence) const;
};

// Throws UnreadableFile, DamagedFile; both name the path.
Recording readRecording(const std::string& path);

// Files, and those of folders whose names are the library's. Throws UnreadableFile.
std::vector<std::string> filesOf(const std::vector<std::string>& paths);

}  // namespace flight
