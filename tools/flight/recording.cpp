#include "tools/flight/recording.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

namespace flight {

namespace {

using Json = nlohmann::json;

constexpr int kFormatVersion = 1;  // the newest that is understood
constexpr int kMostRanks = 1024;

[[noreturn]] void damaged(const std::string& what) { throw DamagedFile(what); }

// nlohmann turns a negative number or a fraction into another one.
template <class Number>
Number numberIn(const Json& from, const char* name) {
  const Json& value = from.at(name);
  const bool fits = std::is_unsigned_v<Number> ? value.is_number_unsigned() : value.is_number_integer();
  if (!fits) damaged(std::string(name) + " is no whole number");
  return value.get<Number>();
}
template <class Value>
std::optional<Value> numberOrNone(const Json& from, const char* name) {
  if (from.at(name).is_null()) return std::nullopt;
  return numberIn<Value>(from, name);
}
std::string textOrNone(const Json& from, const char* name) {
  return from.at(name).is_null() ? std::string() : from.at(name).get<std::string>();
}
void checkRank(int64_t rank, int ranks) {
  if (rank < 0 || rank >= ranks) damaged("rank " + std::to_string(rank) + " of " + std::to_string(ranks));
}

Entry entryOf(const Json& from, int ranks) {
  Entry entry;
  entry.number = numberIn<uint64_t>(from, "number");
  entry.sequence = numberOrNone<uint64_t>(from, "sequence");
  entry.call = from.at("call").get<std::string>();
  entry.preset = textOrNone(from, "preset");
  entry.selector = textOrNone(from, "selector");
  entry.collective = textOrNone(from, "collective");
  entry.tag = numberIn<uint64_t>(from, "tag");
  entry.n = numberIn<uint64_t>(from, "n");
  entry.k = numberIn<uint64_t>(from, "k");
  entry.plan = from.at("plan").get<std::string>();
  entry.startNs = numberIn<int64_t>(from, "startNs");
  entry.roundNs = numberOrNone<int64_t>(from, "roundNs");
  entry.endNs = numberOrNone<int64_t>(from, "endNs");
  entry.rounds = numberIn<uint64_t>(from, "rounds");
  entry.sentBytes = numberIn<uint64_t>(from, "sentBytes");
  entry.receivedBytes = numberIn<uint64_t>(from, "receivedBytes");
  if (!from.at("result").is_null()) entry.result = from.at("result").get<std::string>();
  entry.peer = numberOrNone<int>(from, "peer");
  if (entry.peer) checkRank(*entry.peer, ranks);
  for (const Json& rank : from.at("waitsFor")) {
    checkRank(rank.get<int64_t>(), ranks);
    entry.waitsFor.push_back(rank.get<int>());
  }
  return entry;
}

Recording recordingOf(const Json& from) {
  if (!from.is_object() || from.value("format", "") != "sparsecoll-flight") damaged("no file of a flight recorder");
  if (const int version = numberIn<int>(from, "formatVersion"); version < 1 || version > kFormatVersion)
    damaged("written by another version of the library: format " + std::to_string(version));
  Recording recording;
  recording.communicator = from.at("communicator").get<std::string>();
  recording.name = from.at("name").get<std::string>();
  recording.host = from.at("host").get<std::string>();
  recording.transport = from.at("transport").get<std::string>();
  recording.ranks = numberIn<int>(from, "ranks");
  if (recording.ranks < 1 || recording.ranks > kMostRanks) damaged(std::to_string(recording.ranks) + " ranks");
  recording.rank = numberIn<int>(from, "rank");
  checkRank(recording.rank, recording.ranks);
  recording.pid = numberIn<int64_t>(from, "pid");
  recording.writtenNs = numberIn<int64_t>(from, "writtenNs");
  if (const Json& failure = from.at("failure"); !failure.is_null())
    recording.failure = Failure{failure.at("result").get<std::string>(), numberIn<int>(failure, "peer"),
                                numberIn<uint64_t>(failure, "sequence"), failure.at("text").get<std::string>()};
  for (const Json& entry : from.at("entries")) recording.entries.push_back(entryOf(entry, recording.ranks));
  return recording;
}

}  // namespace

const Entry* Recording::latest() const {
  const auto last = std::find_if(entries.rbegin(), entries.rend(), [](const Entry& one) { return one.sequence; });
  return last != entries.rend() ? &*last : nullptr;
}

const Entry* Recording::find(uint64_t sequence) const {
  const auto found = std::find_if(entries.rbegin(), entries.rend(),
                                  [&](const Entry& one) { return one.sequence && *one.sequence == sequence; });
  return found != entries.rend() ? &*found : nullptr;
}

Recording readRecording(const std::string& path) {
  std::error_code no;
  std::ifstream file(path, std::ios::binary);
  if (!file || std::filesystem::is_directory(path, no)) throw UnreadableFile(path + ": " + std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) throw UnreadableFile(path + ": " + std::strerror(errno));
  try {
    Recording recording = recordingOf(Json::parse(text));
    recording.path = path;
    return recording;
  } catch (const Json::exception& error) {
    throw DamagedFile(path + ": " + error.what());
  } catch (const DamagedFile& error) {
    throw DamagedFile(path + ": " + error.what());
  }
}

std::vector<std::string> filesOf(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    std::vector<std::string> inside;
    for (const auto& one : std::filesystem::directory_iterator(path, error)) {
      const std::string name = one.path().filename().string();
      if (name.starts_with("sparsecoll-flight-") && name.ends_with(".json")) inside.push_back(one.path().string());
    }
    if (error) throw UnreadableFile(path + ": " + error.message());
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

}  // namespace flight
