// SPDX-License-Identifier: Apache-2.0
#include "examples/common/checkpoint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <stdexcept>

#include "bench/common/output_file.h"

namespace examples {

namespace {

namespace fs = std::filesystem;

constexpr int kVersion = 2;
constexpr const char* kStateFile = "state.json";
constexpr const char* kChecksum = "checksum";

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

uint64_t checksumOf(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string contentOf(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  if (stream.bad()) throw std::runtime_error("cannot read " + path.string());
  return bytes;
}

void checkContent(const fs::path& path, uint64_t found, uint64_t saved) {
  if (found == saved) return;
  throw std::runtime_error(path.string() + " is damaged: its checksum is " + hex(found) + ", " + hex(saved) +
                           " was saved");
}

void checkSameRun(const Json& saved, const Json& now, const fs::path& directory) {
  for (const auto& [name, value] : now.items()) {
    if (saved.contains(name) && saved[name] == value) continue;
    const std::string before = saved.contains(name) ? saved[name].dump() : "nothing";
    throw std::runtime_error("the checkpoint in " + directory.string() + " is of a run with " + name + " = " + before +
                             ", not " + value.dump());
  }
}

RunState stateOf(const Json& json) {
  RunState state;
  state.preset = json.at("preset");
  state.step = json.at("step");
  const auto& totals = json.at("totals");
  state.totals = {totals.at("steps"), totals.at("sent_bytes"), totals.at("density"), totals.at("tail_loss")};
  for (const std::string text : json.at("files")) state.checksums.push_back(std::stoull(text, nullptr, 16));
  for (const auto& result : json.at("finished")) state.finished.push_back(resultFromJson(result));
  return state;
}

}  // namespace

fs::path Checkpoint::rankFile(const std::string& preset, size_t step, size_t rank) const {
  char name[64];
  std::snprintf(name, sizeof name, "-step%06zu-rank%zu.pt", step, rank);
  return directory_ / (preset + name);
}

uint64_t Checkpoint::writeRank(const std::string& preset, size_t step, size_t rank, std::string_view bytes) const {
  fs::create_directories(directory_);
  bench::OutputFile(rankFile(preset, step, rank).string()).write(bytes);
  return checksumOf(bytes);
}

void Checkpoint::commit(const Json& run, const RunState& state) const {
  Json json{{"version", kVersion}, {"run", run}, {"preset", state.preset}, {"step", state.step}};
  json["totals"] = {{"steps", state.totals.steps},
                    {"sent_bytes", state.totals.sentBytes},
                    {"density", state.totals.density},
                    {"tail_loss", state.totals.tailLoss}};
  json["files"] = Json::array();
  for (const uint64_t checksum : state.checksums) json["files"].push_back(hex(checksum));
  json["finished"] = Json::array();
  for (const auto& result : state.finished) json["finished"].push_back(toJson(result));
  json[kChecksum] = hex(checksumOf(json.dump()));
  bench::OutputFile((directory_ / kStateFile).string()).write(json.dump(1) + "\n");

  std::set<fs::path> named;
  for (size_t rank = 0; rank < state.checksums.size(); ++rank) named.insert(rankFile(state.preset, state.step, rank));
  static const std::regex kRankFile(R"(.+-step\d{6,}-rank\d+\.pt(\.part)?)");
  for (const auto& entry : fs::directory_iterator(directory_)) {
    std::error_code none;
    const bool ours = std::regex_match(entry.path().filename().string(), kRankFile);
    if (ours && named.count(entry.path()) == 0) fs::remove(entry.path(), none);
  }
}

RunState Checkpoint::read(const Json& run) const {
  const auto path = directory_ / kStateFile;
  if (!fs::exists(path)) {
    throw std::runtime_error("no checkpoint in " + directory_.string() + ": cannot read " + path.string());
  }
  try {
    auto json = Json::parse(contentOf(path));
    if (json.at("version") != kVersion) throw std::runtime_error(path.string() + " is of another version");
    const uint64_t saved = std::stoull(json.at(kChecksum).get<std::string>(), nullptr, 16);
    json.erase(kChecksum);
    const uint64_t found = checksumOf(json.dump());
    checkContent(path, found, saved);
    checkSameRun(json.at("run"), run, directory_);
    RunState state = stateOf(json);
    state.checksum = found;
    return state;
  } catch (const Json::exception& error) {
    throw std::runtime_error(path.string() + " is damaged: " + error.what());
  } catch (const std::logic_error& error) {  // a checksum that is no number
    throw std::runtime_error(path.string() + " is damaged: " + error.what());
  }
}

std::string Checkpoint::readRank(const RunState& state, size_t rank) const {
  const auto path = rankFile(state.preset, state.step, rank);
  std::string bytes = contentOf(path);
  checkContent(path, checksumOf(bytes), state.checksums.at(rank));
  return bytes;
}

}  // namespace examples
