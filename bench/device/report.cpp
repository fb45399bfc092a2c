#include "bench/device/report.h"

#include <fmt/core.h>

#include <cstdio>
#include <fstream>

#include "bench/common/clock.h"
#include "sparsecoll/sparsecoll.h"

namespace bench {

namespace {

nlohmann::json deviceJson() {
  int ordinal = 0;
  checkCuda(cudaGetDevice(&ordinal), "cudaGetDevice");
  cudaDeviceProp properties{};
  checkCuda(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  int driver = 0;
  int runtime = 0;
  checkCuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  checkCuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {{"name", properties.name},
          {"compute_capability", fmt::format("{}.{}", properties.major, properties.minor)},
          {"processors", properties.multiProcessorCount},
          {"l2_bytes", properties.l2CacheSize},
          {"memory_bytes", properties.totalGlobalMem},
          {"driver", driver},
          {"runtime", runtime}};
}

std::string nameOf(const CaseKey& place) {
  return place.density ? fmt::format("{}/n:{}/density:{}", place.name, place.n, *place.density)
                       : fmt::format("{}/n:{}", place.name, place.n);
}

nlohmann::json baseOf(const CaseKey& place) {
  nlohmann::json row = {
      {"name", nameOf(place)}, {"operation", place.name}, {"who", place.who}, {"n", place.n}, {"density", nullptr}};
  if (place.density) row["density"] = *place.density;
  return row;
}

std::string percent(double share) { return share > 0 ? fmt::format("{:.1f}%", 100 * share) : "-"; }

}  // namespace

Report::Report(const Settings& settings) {
  json_["schema"] = 1;
  json_["context"] = {{"build", nlohmann::json::parse(sparsecollGetBuildInfo())},
                      {"date", dateText()},
                      {"device", deviceJson()},
                      {"replays", settings.replays.count},
                      {"graph_bytes", settings.replays.graphBytes}};
  json_["benchmarks"] = nlohmann::json::array();
}

void Report::begin() const {
  const nlohmann::json& device = json_["context"]["device"];
  const nlohmann::json& build = json_["context"]["build"];
  note(fmt::format("sparsecoll-device {} ({}), {}, {} processors, {}", build["version"].get<std::string>(),
                   build["commit"].get<std::string>(), device["name"].get<std::string>(), device["processors"].dump(),
                   json_["context"]["date"].get<std::string>()));
  note(
      "medians of graph replays; GB/s of the bytes that an operation cannot do without; of_copy, of_add: share of "
      "what copy and inplace_add reach at the same n");
  fmt::print("{:<44} {:<10} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>6}  {}\n", "benchmark", "who", "median_us",
             "best_us", "p99_us", "GB/s", "of_copy", "of_add", "#wrong", "counters");
}

void Report::note(const std::string& text) const {
  fmt::print("# {}\n", text);
  std::fflush(stdout);
}

void Report::add(const CaseKey& place, const Outcome& outcome) {
  const Times& times = outcome.times;
  nlohmann::json row = baseOf(place);
  row.update({{"median_us", times.median * 1e6},
              {"best_us", times.best * 1e6},
              {"p99_us", times.p99 * 1e6},
              {"replays", times.replays},
              {"per_replay", times.perReplay},
              {"bytes", outcome.bytes},
              {"wrong", outcome.wrong}});
  for (const Counter& counter : outcome.counters) row["counters"][counter.name] = counter.value;
  addRow(nameOf(place), std::move(row));
}

void Report::addOf(const nlohmann::json& file, uint64_t n) {
  for (const nlohmann::json& row : file["benchmarks"]) {
    if (row["n"] != n) continue;
    const CaseKey place{row["operation"], n, row["density"].get<double>(), row["who"]};
    if (row.contains("skipped"))
      skip(place, row["skipped"]);
    else
      addRow(nameOf(place), row);
  }
}

// The shares of what a device can do are filled in here.
void Report::addRow(const std::string& name, nlohmann::json row) {
  const double microseconds = row["median_us"];
  const double rate = microseconds > 0 ? row["bytes"].get<double>() / microseconds * 1e6 : 0;
  if (row["operation"] == "copy") copyRate_ = rate;
  if (row["operation"] == "inplace_add") addRate_ = rate;
  const double ofCopy = copyRate_ > 0 ? rate / copyRate_ : 0;
  const double ofAdd = addRate_ > 0 ? rate / addRate_ : 0;
  const auto orNull = [](double x) { return x > 0 ? nlohmann::json(x) : nlohmann::json(nullptr); };
  row.update({{"gbps", orNull(rate * 1e-9)}, {"of_copy", orNull(ofCopy)}, {"of_inplace_add", orNull(ofAdd)}});
  const uint64_t wrong = row["wrong"];
  anyWrong_ = anyWrong_ || wrong != 0;
  std::string counters;
  const nlohmann::json counted = row.value("counters", nlohmann::json::object());
  for (const auto& [counter, value] : counted.items())
    counters += fmt::format(" {}={:.6g}", counter, value.get<double>());
  fmt::print("{:<44} {:<10} {:>10.2f} {:>10.2f} {:>10.2f} {:>8} {:>8} {:>8} {:>6} {}\n", name,
             row["who"].get<std::string>(), microseconds, row["best_us"].get<double>(), row["p99_us"].get<double>(),
             rate > 0 ? fmt::format("{:.0f}", rate * 1e-9) : "-", percent(ofCopy), percent(ofAdd), wrong, counters);
  std::fflush(stdout);
  json_["benchmarks"].push_back(std::move(row));
}

void Report::skip(const CaseKey& place, const std::string& reason) {
  note(fmt::format("{}: not run: {}", nameOf(place), reason));
  nlohmann::json row = baseOf(place);
  row["skipped"] = reason;
  json_["benchmarks"].push_back(std::move(row));
}

std::string Report::json() const { return json_.dump(2) + "\n"; }

nlohmann::json readRows(const std::string& path) {
  std::ifstream file(path);
  nlohmann::json json = nlohmann::json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("benchmarks")) throw UsageError(path + ": no file of rows");
  return json;
}

}  // namespace bench
