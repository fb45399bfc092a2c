// sparsecoll-flight: joins the files that the flight recorders of all ranks have left, and says who held up whom.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>

#include "sparsecoll/sparsecoll.h"
#include "tools/flight/join.h"
#include "tools/flight/words.h"

namespace flight {

namespace {

enum ExitCode { kNothingFound = 0, kFound = 1, kDamaged = 2, kUsage = 3, kUnreadable = 4 };

constexpr const char* kFooter =
    "Files are written by sparsecollCommDumpFlightRecorder, and after failures to the folder in "
    "SPARSECOLL_FLIGHT_DIR.\n"
    "Exit codes: 0 nothing is wrong, 1 something is, 2 a file is damaged, 3 usage, 4 a file cannot be read.";

struct Options {
  std::vector<std::string> paths;
  bool json = false;
  int last = 0;
};

// Of the second, in universal time.
std::string dateText(int64_t ns) {
  const std::time_t seconds = ns / 1'000'000'000;
  std::tm when{};
  char text[32] = {};
  (void)std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &when));
  return text;
}

std::string lineOf(const Entry& entry) {
  std::string line = entry.sequence ? std::to_string(*entry.sequence) : "-";
  line += " " + operationText(entry) + ": ";
  line += std::to_string(entry.rounds) + (entry.rounds == 1 ? " round, " : " rounds, ");
  line += std::to_string(entry.sentBytes) + " bytes sent, " + std::to_string(entry.receivedBytes) + " received, ";
  if (entry.underWay()) return line + "under way";
  return line + *entry.result + " after " + durationText(entry.endNs.value_or(entry.startNs) - entry.startNs);
}

void print(const Group& group, const std::vector<Finding>& findings, int last) {
  std::cout << "communicator " << group.communicator << " (" << group.name << "), " << group.ranks << " over "
            << group.transport << ", files of " << ranksText(group.here()) << ", " << dateText(group.writtenNs())
            << "\n";
  for (const Finding& finding : findings) std::cout << "  " << finding.text << "\n";
  if (findings.empty()) std::cout << "  nothing is wrong as far as the files tell\n";
  for (const auto& [rank, recording] : group.of) {
    if (last == 0) continue;
    std::cout << "  rank " << rank << " on " << recording.host << ", process " << recording.pid << ":\n";
    const size_t count = recording.entries.size();
    const size_t shown = std::min(count, static_cast<size_t>(last));
    for (size_t i = count - shown; i < count; ++i) std::cout << "    " << lineOf(recording.entries[i]) << "\n";
  }
}

nlohmann::ordered_json jsonOf(const Group& group, const std::vector<Finding>& findings) {
  nlohmann::ordered_json json = {{"communicator", group.communicator},
                                 {"name", group.name},
                                 {"transport", group.transport},
                                 {"ranks", group.ranks},
                                 {"files", group.here()},
                                 {"written", dateText(group.writtenNs())},
                                 {"findings", nlohmann::ordered_json::array()}};
  for (const Finding& finding : findings) {
    nlohmann::ordered_json one = {{"kind", nameOf(finding.kind)}, {"ranks", finding.ranks}, {"text", finding.text}};
    if (finding.sequence) one["sequence"] = *finding.sequence;
    json["findings"].push_back(std::move(one));
  }
  return json;
}

int run(const Options& options) {
  std::vector<Recording> recordings;
  bool damaged = false;
  const std::vector<std::string> files = filesOf(options.paths);
  for (const std::string& path : files) {
    try {
      recordings.push_back(readRecording(path));
    } catch (const DamagedFile& error) {
      std::cerr << "sparsecoll-flight: " << error.what() << "\n";
      damaged = true;
    }
  }
  if (files.empty()) throw UnreadableFile("no file of a flight recorder is in these folders");
  std::vector<std::string> notes;
  bool found = false;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Group& group : groupsOf(std::move(recordings), notes)) {
    const std::vector<Finding> findings = findingsOf(group);
    found = found || !findings.empty();
    if (options.json)
      all.push_back(jsonOf(group, findings));
    else
      print(group, findings, options.last);
  }
  if (options.json) std::cout << all.dump(2) << "\n";
  for (const std::string& note : notes) std::cerr << "sparsecoll-flight: " << note << "\n";
  std::cout.flush();
  if (!std::cout) throw UnreadableFile("standard output cannot be written");
  return damaged ? kDamaged : found ? kFound : kNothingFound;
}

int fail(const char* what, ExitCode code) {
  std::fprintf(stderr, "sparsecoll-flight: %s\n", what);
  return code;
}

}  // namespace

}  // namespace flight

int main(int argc, char** argv) {
  flight::Options options;
  CLI::App app("Says who held up whom, from the flight recorders' files of all ranks.", "sparsecoll-flight");
  constexpr int code = SPARSECOLL_VERSION_CODE;
  app.set_version_flag("--version", "sparsecoll-flight " + std::to_string(code / 10000) + "." +
                                        std::to_string(code / 100 % 100) + "." + std::to_string(code % 100));
  app.footer(flight::kFooter);
  app.add_option("FILE", options.paths, "files, or folders with them")->required();
  app.add_flag("--json", options.json, "print JSON");
  app.add_option("--last", options.last, "print each rank's last operations, so many")
      ->check(CLI::Range(0, 65536))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    return flight::run(options);
  } catch (const CLI::Success& asked) {
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return flight::fail((std::string(error.what()) + "; --help lists the options").c_str(), flight::kUsage);
  } catch (const std::bad_alloc&) {
    return flight::fail("not enough memory", flight::kUnreadable);
  } catch (const std::exception& error) {
    return flight::fail(error.what(), flight::kUnreadable);
  }
}
