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

std::string nameOf(const Place& place) {
  return place.density ? fmt::format("{}/n:{}/density:{}", place.name, place.n, *place.density)
                       : fmt::format("{}/n:{}", place.name, place.n);
}

nlohmann::json baseOf(const Place& place) {
  nlohmann::json row = {{"name", nameOf(place)}, {"operation", place.name}, {"n", place.n}, {"density", nullptr}};
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
                      {"replays", settings.replays}};
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
  fmt::print("{:<44} {:>10} {:>10} {:>10} {:>8} {:>8} {:>8} {:>6}  {}\n", "benchmark", "median_us", "best_us", "p99_us",
             "GB/s", "of_copy", "of_add", "#wrong", "counters");
}

void Report::note(const std::string& text) const {
  fmt::print("# {}\n", text);
  std::fflush(stdout);
}

void Report::add(const Place& place, const Outcome& outcome) {
  const Times& times = outcome.times;
  const double rate = times.median > 0 ? outcome.bytes / times.median : 0;
  if (place.name == "copy") copyRate_ = rate;
  if (place.name == "inplace_add") addRate_ = rate;
  const double ofCopy = copyRate_ > 0 ? rate / copyRate_ : 0;
  const double ofAdd = addRate_ > 0 ? rate / addRate_ : 0;
  anyWrong_ = anyWrong_ || outcome.wrong != 0;
  nlohmann::json row = baseOf(place);
  row.update({{"median_us", times.median * 1e6},
              {"best_us", times.best * 1e6},
              {"p99_us", times.p99 * 1e6},
              {"replays", times.replays},
              {"per_replay", times.perReplay},
              {"bytes", outcome.bytes},
              {"wrong", outcome.wrong},
              {"gbps", nullptr},
              {"of_copy", nullptr},
              {"of_inplace_add", nullptr}});
  if (rate > 0) row["gbps"] = rate * 1e-9;
  if (ofCopy > 0) row["of_copy"] = ofCopy;
  if (ofAdd > 0) row["of_inplace_add"] = ofAdd;
  std::string counters;
  for (const Counter& counter : outcome.counters) {
    row["counters"][counter.name] = counter.value;
    counters += fmt::format(" {}={:.6g}", counter.name, counter.value);
  }
  fmt::print("{:<44} {:>10.2f} {:>10.2f} {:>10.2f} {:>8} {:>8} {:>8} {:>6} {}\n", nameOf(place), times.median * 1e6,
             times.best * 1e6, times.p99 * 1e6, rate > 0 ? fmt::format("{:.0f}", rate * 1e-9) : "-", percent(ofCopy),
             percent(ofAdd), outcome.wrong, counters);
  std::fflush(stdout);
  json_["benchmarks"].push_back(std::move(row));
}

void Report::skip(const Place& place, const std::string& reason) {
  note(fmt::format("{}: not run: {}", nameOf(place), reason));
  nlohmann::json row = baseOf(place);
  row["skipped"] = reason;
  json_["benchmarks"].push_back(std::move(row));
}

void Report::write(const std::string& path) const {
  std::ofstream file(path);
  file << json_.dump(2) << "\n";
  if (!file.flush()) throw EnvironmentError(path + ": cannot be written");
}

}  // namespace bench
