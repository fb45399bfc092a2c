#include "bench/perf/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <thread>

#include "bench/common/clock.h"
#include "bench/perf/device.h"
#include "bench/perf/library.h"

namespace bench {

struct Column {
  const char* title;
  int width;
  std::string (*text)(const Row& row);
  bool ofNodes = false;
};

namespace {

std::string cpuModel() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

std::string orDash(const std::optional<double>& value, int digits) {
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

double percentOf(uint64_t part, uint64_t whole) { return 100 * static_cast<double>(part) / static_cast<double>(whole); }

std::optional<double> xlocal(const Row& row) {
  return row.localRoofline ? std::optional(row.timing.local / *row.localRoofline) : std::nullopt;
}

std::string microseconds(double value) { return fmt::format("{:.{}f}", value, value < 1000 ? 1 : 0); }

std::string bandwidth(double value) { return fmt::format("{:.{}f}", value, value < 1 ? 4 : 2); }

std::string phase(const Row& row, double value) { return row.timing.phases ? microseconds(value) : "-"; }

constexpr size_t kPlaceColumns = 5;  // what the case is
constexpr Column kColumns[] = {
    {"n", 10, [](const Row& r) { return fmt::format("{}", r.n); }},
    {"type", 4, [](const Row& r) { return r.type; }},
    {"ranks", 10, [](const Row& r) { return r.ranks; }},
    {"density", 8, [](const Row& r) { return r.preset == "dense" ? "-" : fmt::format("{:.5g}", r.density); }},
    {"preset", 9, [](const Row& r) { return r.preset; }},
    {"select", 8, [](const Row& r) { return phase(r, r.timing.select); }},
    {"exchange", 8, [](const Row& r) { return phase(r, r.timing.exchange); }},
    {"scatter", 8, [](const Row& r) { return phase(r, r.timing.scatter); }},
    {"total", 9, [](const Row& r) { return microseconds(r.timing.total); }},
    {"p50", 9, [](const Row& r) { return microseconds(r.timing.p50); }},
    {"p99", 9, [](const Row& r) { return microseconds(r.timing.p99); }},
    {"sent_B", 10, [](const Row& r) { return fmt::format("{}", r.timing.sentBytes); }},
    {"inside_B", 10, [](const Row& r) { return fmt::format("{}", r.timing.insideBytes); }, true},
    {"between_B", 10, [](const Row& r) { return fmt::format("{}", r.timing.betweenBytes); }, true},
    {"sel%", 7, [](const Row& r) { return fmt::format("{:.3f}", 100 * r.timing.achievedDensity); }},
    {"wire%", 7, [](const Row& r) { return orDash(r.wirePercent, 2); }},
    {"union%", 7, [](const Row& r) { return fmt::format("{:.3f}", percentOf(r.timing.unionEntries, r.n)); }},
    {"imbal", 6, [](const Row& r) { return fmt::format("{:.2f}", r.timing.imbalance); }},
    {"algbw", 7, [](const Row& r) { return bandwidth(r.algbw); }},
    {"busbw", 7, [](const Row& r) { return bandwidth(r.busbw); }},
    {"xdense", 7, [](const Row& r) { return orDash(r.speedup, 2); }},
    {"xroof", 6, [](const Row& r) { return fmt::format("{:.2f}", r.timing.total / r.roofline); }},
    {"local", 8, [](const Row& r) { return microseconds(r.timing.local); }},
    {"xlocal", 6, [](const Row& r) { return orDash(xlocal(r), 2); }},
    {"#wrong", 6, [](const Row& r) { return r.check ? fmt::format("{}", r.check->wrong) : std::string("-"); }},
};

nlohmann::json measuredJson(const Row& row) {
  const Timing& t = row.timing;
  nlohmann::json json = {{"total_us", t.total},
                         {"best_us", t.best},
                         {"p50_us", t.p50},
                         {"p99_us", t.p99},
                         {"total_p99_us", t.total99},
                         {"ranks_p50_us", t.ranks},
                         {"sent_bytes", t.sentBytes},
                         {"inside_bytes", t.insideBytes},
                         {"between_bytes", t.betweenBytes},
                         {"timed_steps", t.steps},
                         {"union", t.unionEntries},
                         {"union_percent", percentOf(t.unionEntries, row.n)},
                         {"achieved_density", t.achievedDensity},
                         {"imbalance", t.imbalance},
                         {"algbw_gbps", row.algbw},
                         {"busbw_gbps", row.busbw},
                         {"roofline_us", row.roofline},
                         {"xroof", t.total / row.roofline},
                         {"local_us", t.local},
                         {"k", t.k},
                         {"reason", t.reason},
                         {"dense", t.dense},
                         {"selected", t.selected}};
  for (const char* const name :
       {"select_us", "select_imbalance", "exchange_us", "scatter_us", "local_roofline_us", "xlocal"})
    json[name] = nullptr;
  if (t.phases)
    json.update({{"select_us", t.select},
                 {"select_imbalance", t.selectImbalance},
                 {"exchange_us", t.exchange},
                 {"scatter_us", t.scatter}});
  if (row.localRoofline) json.update({{"local_roofline_us", *row.localRoofline}, {"xlocal", *xlocal(row)}});
  json["wire_percent"] = json["speedup_dense"] = json["wrong"] = json["sum_hash"] = nullptr;
  if (row.wirePercent) json["wire_percent"] = *row.wirePercent;
  if (row.speedup) json["speedup_dense"] = *row.speedup;
  if (row.check) json["wrong"] = row.check->wrong;
  if (row.check) json["sum_hash"] = fmt::format("{:016x}", row.check->hash);
  return json;
}

std::string listOf(const std::vector<std::string>& names) {
  std::string line;
  for (const std::string& name : names) line += (line.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : line;
}

// "host1 (4), host2 (4)": hosts and their ranks.
std::string hostsText(const std::vector<World::Place>& places) {
  std::vector<std::pair<std::string, int>> counts;
  for (const World::Place& place : places) {
    const auto known = std::ranges::find(counts, place.host, &std::pair<std::string, int>::first);
    if (known != counts.end())
      ++known->second;
    else
      counts.emplace_back(place.host, 1);
  }
  std::vector<std::string> texts;
  for (const auto& [host, count] : counts) texts.push_back(fmt::format("{} ({})", host, count));
  return listOf(texts);
}

// A cell of a CSV file: numbers bare, texts and lists in quotes, nothing for null.
std::string cellOf(const nlohmann::json& value) {
  if (value.is_null()) return "";
  if (value.is_number()) return value.dump();
  std::string quoted = "\"";
  for (const char c : value.is_string() ? value.get<std::string>() : value.dump())
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// All rows have the same fields; without a value: null.
nlohmann::json toJson(const Row& row) {
  nlohmann::json json = measuredJson(row);
  if (!row.notCaptured.empty())
    for (nlohmann::json& field : json) field = nullptr;
  json.update({{"n", row.n},
               {"dtype", row.type},
               {"density", row.density},
               {"preset", row.preset},
               {"ranks", row.ranks},
               {"not_captured", nullptr}});
  if (!row.notCaptured.empty()) json["not_captured"] = row.notCaptured;
  return json;
}

}  // namespace

Report::Report(const Options& options) {
  const auto build = nlohmann::json::parse(sparsecollGetBuildInfo());
  json_["context"] = {{"build", build},
                      {"version", build["version"]},
                      {"cpu", cpuModel()},
                      {"cores", std::thread::hardware_concurrency()},
                      {"date", dateText()},
                      {"backend", options.device == kHost ? "host" : "cuda"},
                      {"device", nullptr},
                      {"seed", options.seed},
                      {"dist", options.distribution},
                      {"overlap", options.overlap},
                      {"skew", options.skew},
                      {"op", options.op},
                      {"out_preserved", options.outPreserved},
                      {"transactional", options.transactional},
                      {"graph", options.graph},
                      {"residual", !options.noResidual},
                      {"steps", options.steps},
                      {"warmup", options.warmup},
                      {"check", !options.noCheck},
                      {"rate", nullptr},
                      {"rooflines", nlohmann::json::array()}};
  if (options.device != kHost) json_["context"]["device"] = deviceName(options.device);
  json_["rows"] = nlohmann::json::array();
  nodes_ = options.ranksPerNode != 0;
  threads_ = options.world == nullptr && options.device == kHost;
  for (const std::string& preset : options.presets)
    presetWidth_ = std::max(presetWidth_, static_cast<int>(preset.size()));
}

int Report::widthOf(const Column& column) const {
  return std::string_view(column.title) == "preset" ? presetWidth_ : column.width;
}

void Report::begin() {
  const nlohmann::json& c = json_["context"];
  const nlohmann::json& build = c["build"];
  const auto text = [](const nlohmann::json& value) { return value.get<std::string>(); };
  fmt::print("# sparsecoll-perf {} ({}) {}, {}, {}, {} cores, {}\n", text(c["version"]), text(build["commit"]),
             text(build["build"]), text(build["isa"]), text(c["cpu"]), c["cores"].dump(), text(c["date"]));
  if (c["device"].is_string())
    fmt::print("# ranks share {}, steps are {}\n", text(c["device"]),
               c["graph"].get<bool>() ? "replays of CUDA graphs" : "enqueued one by one");
  fmt::print("# op {}, dist {}, overlap {}, skew {}, seed {}, {} steps after {}, residual {}, out {}, check {}\n",
             text(c["op"]), text(c["dist"]), c["overlap"].dump(), c["skew"].dump(), c["seed"].dump(), c["steps"].dump(),
             c["warmup"].dump(), c["residual"].get<bool>() ? "on" : "off",
             c["out_preserved"].get<bool>() ? "preserved" : "written", c["check"].get<bool>() ? "on" : "OFF");
}

void Report::path(const sparsecollCommDetails_t& details, const std::vector<World::Place>& places) {
  nlohmann::json& c = json_["context"];
  const std::string engine = sparsecollTransportName(details.transport);
  const std::string interfaceName = details.interfaceName;
  c["engine"] = engine;
  c["engine_reason"] = details.reason;
  c["interface"] = interfaceName;
  c["hosts"] = nlohmann::json::array();
  for (const World::Place& place : places) c["hosts"].push_back(place.host);
  note(fmt::format("ranks on {}; engine {} ({}); interface {}; commit {}", hostsText(places), engine, details.reason,
                   interfaceName.empty() ? "none" : interfaceName, c["build"]["commit"].get<std::string>()));
  if (const char* const rate = std::getenv("SPARSECOLL_RATE"); rate != nullptr && *rate != '\0') {
    c["rate"] = rate;
    const bool threads = details.transport == sparsecollTransportThreads;
    note(fmt::format("SPARSECOLL_RATE={} {}", rate,
                     threads ? "has no effect: ranks that are threads send nothing"
                             : "holds up what each rank sends, which emulates a link"));
  }
  note("algbw: bytes of the gradient / total; busbw: algbw * 2 (P - 1) / P, both in GB/s; xdense: dense total / total");
}

void Report::note(const std::string& text) {
  fmt::print("# {}\n", text);
  std::fflush(stdout);
}

void Report::addRoofline(const Shape& shape, const Roofline& roofline, uint32_t flags) {
  const auto time = [&](bool dense) {
    const auto bytes = static_cast<double>(localBytes(*shape.type, dense, flags) * shape.n);
    return bytes / roofline.best() * 1e6;
  };
  const double rate = roofline.best() * 1e-9;
  note(fmt::format(
      "n {}, {}, {}: local roofline {} us per step ({} B/element at {:.2f} GB/s a rank: {}); "
      "dense {} us ({} B/element)",
      shape.n, shape.type->name(), shape.ranksText(), microseconds(time(false)), localBytes(*shape.type, false, flags),
      rate, roofline.loop(), microseconds(time(true)), localBytes(*shape.type, true, flags)));
  json_["context"]["rooflines"].push_back({{"n", shape.n},
                                           {"dtype", shape.type->name()},
                                           {"ranks", shape.ranksText()},
                                           {"gbps_per_rank", rate},
                                           {"loop", roofline.loop()},
                                           {"local_us", time(false)},
                                           {"dense_us", time(true)}});
}

void Report::add(const Row& row) {
  if (!columnsShown_) {
    for (const Column& column : kColumns)
      if (nodes_ || !column.ofNodes) fmt::print("{:>{}} ", column.title, widthOf(column));
    fmt::print("\n");
    columnsShown_ = true;
  }
  const std::span columns(kColumns);
  for (const Column& column : row.notCaptured.empty() ? columns : columns.first(kPlaceColumns))
    if (nodes_ || !column.ofNodes) fmt::print("{:>{}} ", column.text(row), widthOf(column));
  fmt::print("{}\n", row.notCaptured.empty() ? "" : "not captured: " + row.notCaptured);
  if (row.preset == kAuto) note(fmt::format("auto took {}", row.timing.reason));
  if (row.check && row.check->wrong != 0) {
    note("WRONG: " + row.check->firstWrong);
    anyWrong_ = true;
  }
  std::fflush(stdout);
  json_["rows"].push_back(toJson(row));
}

void Report::conclude() {
  // What tells cases of a preset apart.
  constexpr std::pair<const char*, const char*> kFields[] = {
      {"n", "n {}"}, {"dtype", "{}"}, {"ranks", "{}"}, {"density", "density {}"}};
  std::vector<std::string> faster, slower;
  std::map<std::string_view, std::set<nlohmann::json>> values;
  for (const nlohmann::json& row : json_["rows"])
    for (const auto& [field, words] : kFields)
      if (row["preset"] != "dense") values[field].insert(row[field]);
  for (const nlohmann::json& row : json_["rows"]) {
    if (!row["speedup_dense"].is_number() || row["dense"] == true) continue;
    const double speedup = row["speedup_dense"].get<double>();
    std::string at;
    for (const auto& [field, words] : kFields) {
      if (values[field].size() < 2) continue;
      const nlohmann::json& value = row[field];
      at += (at.empty() ? " at " : ", ") +
            fmt::format(fmt::runtime(words), value.is_string() ? value.get<std::string>() : value.dump());
    }
    (speedup > 1 ? faster : slower)
        .push_back(fmt::format("{}{} ({:.2f})", row["preset"].get<std::string>(), at, speedup));
  }
  if (faster.empty() && slower.empty()) return;
  note("Dense time / sparse time is in brackets. Sparse is faster here with: " + listOf(faster) + ".");
  note("Dense is faster here than: " + listOf(slower) + ".");
  if (threads_)
    note(
        "The ranks share one process, so no byte crosses a network, and sending less saves nothing. Between hosts "
        "bytes "
        "cost time: `make hosts` measures that.");
}

std::string Report::csv() const {
  std::string text;
  for (const nlohmann::json& row : json_["rows"]) {
    std::string names, cells;
    for (const auto& [name, value] : row.items()) {
      const char* const comma = names.empty() ? "" : ",";
      names += comma + name;
      cells.append(comma).append(cellOf(value));
    }
    if (text.empty()) text = names + "\n";
    text += cells + "\n";
  }
  return text;
}

std::string Report::json() const { return json_.dump(2) + "\n"; }

}  // namespace bench
