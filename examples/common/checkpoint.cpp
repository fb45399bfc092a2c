// SPDX-License-Identifier: Apache-2.0
#include "examples/common/checkpoint.h"

#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace examples {

namespace {

constexpr int kVersion = 1;
constexpr const char* kStateFile = "state.json";

void checkSameRun(const Json& saved, const Json& now, const std::filesystem::path& directory) {
  for (const auto& [name, value] : now.items()) {
    if (saved.contains(name) && saved[name] == value) continue;
    const std::string before = saved.contains(name) ? saved[name].dump() : "nothing";
    throw std::runtime_error("the checkpoint in " + directory.string() + " is of a run with " + name + " = " + before +
                             ", not " + value.dump());
  }
}

}  // namespace

std::filesystem::path Checkpoint::rankFile(const std::string& preset, size_t step, size_t rank) const {
  char name[64];
  std::snprintf(name, sizeof name, "-step%06zu-rank%zu.pt", step, rank);
  return directory_ / (preset + name);
}

void Checkpoint::commit(const Json& run, const RunState& state) const {
  Json json{{"version", kVersion}, {"run", run}, {"preset", state.preset}, {"step", state.step}};
  json["totals"] = {{"steps", state.totals.steps},
                    {"sent_bytes", state.totals.sentBytes},
                    {"density", state.totals.density},
                    {"tail_loss", state.totals.tailLoss}};
  json["finished"] = Json::array();
  for (const auto& result : state.finished) json["finished"].push_back(toJson(result));
  writeFile((directory_ / kStateFile).string(), json.dump(1) + "\n");
}

RunState Checkpoint::read(const Json& run) const {
  const auto path = directory_ / kStateFile;
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("no checkpoint in " + directory_.string() + ": cannot read " + path.string());
  try {
    const auto json = Json::parse(stream);
    if (json.at("version") != kVersion) throw std::runtime_error("another version");
    checkSameRun(json.at("run"), run, directory_);
    RunState state;
    state.preset = json.at("preset");
    state.step = json.at("step");
    const auto& totals = json.at("totals");
    state.totals = {totals.at("steps"), totals.at("sent_bytes"), totals.at("density"), totals.at("tail_loss")};
    for (const auto& result : json.at("finished")) state.finished.push_back(resultFromJson(result));
    return state;
  } catch (const Json::exception& error) {
    throw std::runtime_error(path.string() + ": " + error.what());
  }
}

}  // namespace examples
