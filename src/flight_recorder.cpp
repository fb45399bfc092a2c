#include "src/flight_recorder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "core/environment.h"
#include "src/names.h"

namespace sparsecoll {

namespace {

constexpr int kFormatVersion = 1;

// The bytes of the UTF-8 letter that text begins with; 0: it begins with none.
size_t letterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const size_t length = byte(0) < 0x80 ? 1 : byte(0) < 0xc2 ? 0 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  if (length == 0 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool longerThanNeeded = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool noLetter = (byte(0) == 0xed && byte(1) > 0x9f) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return longerThanNeeded || noLetter ? 0 : length;
}

// As a string of JSON, whatever bytes the text has.
template <size_t kSize>
Text<kSize> quoted(std::string_view text) {
  Text<kSize> json("\"");
  for (constexpr size_t kRoomOfOne = 8; !text.empty() && json.view().size() + kRoomOfOne < kSize;) {
    const size_t length = letterLength(text);
    const char letter = text[0];
    if (length == 0)
      json.append("?");
    else if (letter == '"' || letter == '\\')
      json.append("\\{}", letter);
    else if (static_cast<unsigned char>(letter) < 0x20)
      json.append("\\u{:04x}", static_cast<unsigned>(letter));
    else
      json.append("{}", text.substr(0, length));
    text.remove_prefix(length == 0 ? 1 : length);
  }
  json.append("\"");
  return json;
}

Text<80> hostName() {
  char name[65] = {};
  if (gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
  constexpr std::string_view kPlain = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-";
  Text<80> host;
  for (const char letter : std::string_view(name))
    host.append("{}", kPlain.find(letter) != std::string_view::npos ? letter : '-');
  return host.empty() ? Text<80>("host") : host;
}

int64_t wallNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool isPlainOrAbsent(const char* path) {
  struct stat facts {};
  return lstat(path, &facts) != 0 || S_ISREG(facts.st_mode);
}

// A file under another name until it is whole. Nothing that somebody has put there before is written through.
class PartFile {
 public:
  explicit PartFile(const char* path) : path_(path) {
    static std::atomic<uint32_t> files{0};
    name_ = FlightPath::format("{}.{}-{}.part", path, getpid(), files.fetch_add(1));
    for (int trial = 0; trial < 2 && file_ < 0; ++trial) {
      if (trial != 0) (void)unlink(name_.c_str());  // of a process of another life
      file_ = open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
      if (file_ < 0 && errno != EEXIST) break;
    }
    if (file_ < 0) error_ = errno;
  }
  ~PartFile() {
    if (file_ >= 0) close(file_);
    if (file_ >= 0 && !renamed_) (void)unlink(name_.c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  template <size_t kSize>
  void write(const Text<kSize>& text) {
    for (std::string_view left = text.view(); !left.empty() && error_ == 0;) {
      const ssize_t some = ::write(file_, left.data(), left.size());
      if (some > 0) left.remove_prefix(static_cast<size_t>(some));
      if (some == 0) error_ = ENOSPC;
      if (some < 0 && errno != EINTR) error_ = errno;
    }
  }
  // The process may end now, and the machine does not: there is no wait for the disk.
  Status finish() {
    if (error_ == 0) renamed_ = rename(name_.c_str(), path_) == 0;
    if (error_ == 0 && !renamed_) error_ = errno;
    if (error_ == 0) return {};
    return fail(sparsecollSystemError, "the flight recorder's file cannot be written: {}: {}", path_,
                std::strerror(error_));
  }

 private:
  const char* const path_;
  FlightPath name_;
  int file_ = -1;
  int error_ = 0;
  bool renamed_ = false;
};

Text<512> timesOf(const FlightFacts& facts, int64_t wallMinusSteady) {
  Text<512> text;
  const auto add = [&](const char* name, int64_t ns) {
    if (ns != 0)
      text.append(R"(, "{}": {})", name, ns + wallMinusSteady);
    else
      text.append(R"(, "{}": null)", name);
  };
  add("startNs", facts.startNs);
  add("roundNs", facts.roundNs);
  add("endNs", facts.endNs);
  return text;
}

void writeAwaited(PartFile& file, const FlightFacts& facts) {
  const bool over = facts.endNs != 0 && facts.result == sparsecollSuccess;
  Text<16> between;
  for (int rank = 0; rank < kMaxRanks && !over; ++rank) {
    if ((facts.awaited[static_cast<size_t>(rank) / 64] >> (rank % 64) & 1) == 0) continue;
    file.write(Text<32>::format("{}{}", between, rank));
    between = ", ";
  }
}

void writeFacts(PartFile& file, const FlightFacts& facts, int64_t wallMinusSteady, bool first) {
  const OperationLabel& label = facts.label;
  const auto nameOrNull = [](const char* name) { return *name != '\0' ? quoted<64>(name) : Text<64>("null"); };
  Text<1024> line = first ? "\n    {" : ",\n    {";
  line.append(R"("number": {}, "sequence": )", facts.number);
  if (facts.sequence != 0)
    line.append("{}", facts.sequence);
  else
    line.append("null");
  line.append(R"(, "call": {}, "preset": {}, "selector": {}, "collective": {})", quoted<64>(label.call),
              nameOrNull(label.preset), nameOrNull(label.selector), nameOrNull(label.collective));
  line.append(R"(, "tag": {}, "n": {}, "k": {}, "plan": "{:016x}")", label.tag, label.n, label.k, facts.plan);
  line.append("{}", timesOf(facts, wallMinusSteady));
  line.append(R"(, "rounds": {}, "sentBytes": {}, "receivedBytes": {})", facts.rounds, facts.sentBytes,
              facts.receivedBytes);
  if (facts.endNs != 0)
    line.append(R"(, "result": {}, "peer": )", quoted<64>(resultName(facts.result)));
  else
    line.append(R"(, "result": null, "peer": )");
  if (facts.endNs != 0 && facts.peer >= 0)
    line.append("{}", facts.peer);
  else
    line.append("null");
  line.append(R"(, "waitsFor": [)");
  file.write(line);
  writeAwaited(file, facts);
  file.write(Text<4>("]}"));
}

}  // namespace

Result<uint32_t> flightEntries() {
  SC_TRY(const uint64_t entries, environmentNumber(variable::kFlightEntries, kDefaultFlightEntries,
                                                   {0, kMostFlightEntries, "a number of operations"}));
  return static_cast<uint32_t>(entries);
}

Result<std::string> flightFolder() {
  const char* const text = environmentText(variable::kFlightFolder);
  if (text == nullptr) return std::string();
  struct stat facts {};
  constexpr size_t kLongest = 700;  // with a file's name it is a path
  const bool folder = std::strlen(text) <= kLongest && stat(text, &facts) == 0 && S_ISDIR(facts.st_mode);
  if (!folder || access(text, W_OK | X_OK) != 0)
    return invalid("{} is '{}', which is no folder that this process can write to", variable::kFlightFolder, text);
  return std::string(text);
}

FlightPath flightPathIn(std::string_view folder, const FlightSource& source) {
  return FlightPath::format("{}/sparsecoll-flight-{:016x}-rank{}-{}-{}.json", folder, source.id, source.rank,
                            hostName(), getpid());
}

Status writeFlight(const FlightRecorder& recorder, const FlightSource& source, const char* path) {
  constexpr size_t kLongest = 1000;  // with room for the other name
  if (std::strlen(path) > kLongest) return invalid("the path has more than {} bytes", kLongest);
  if (!isPlainOrAbsent(path)) return invalid("what is at {} is no plain file", path);
  PartFile file(path);
  const int64_t now = wallNs();
  const int64_t wallMinusSteady = now - FlightRecord::nowNs();
  constexpr int code = SPARSECOLL_VERSION_CODE;
  file.write(
      Text<256>::format("{{\n  \"format\": \"sparsecoll-flight\", \"formatVersion\": {}, \"library\": \"{}.{}.{}\",\n",
                        kFormatVersion, code / 10000, code / 100 % 100, code % 100));
  file.write(Text<1024>::format(
      "  \"communicator\": \"{:016x}\", \"name\": {}, \"rank\": {}, \"ranks\": {}, \"host\": {}, \"pid\": {},\n",
      source.id, quoted<600>(source.name), source.rank, source.ranks, quoted<100>(hostName().view()), getpid()));
  file.write(Text<256>::format("  \"transport\": {}, \"device\": {}, \"opTimeoutMs\": {}, \"why\": \"{}\",\n",
                               quoted<64>(transportName(source.transport)), source.device, source.opTimeoutMs,
                               source.failed ? "failure" : "call"));
  const sparsecollFailure_t& failure = source.failure;
  if (failure.result == sparsecollSuccess)
    file.write(Text<32>("  \"failure\": null,\n"));
  else
    file.write(Text<1024>::format(
        "  \"failure\": {{\"result\": {}, \"peer\": {}, \"sequence\": {}, \"field\": {}, \"text\": {}}},\n",
        quoted<64>(resultName(failure.result)), failure.peer, failure.sequence, quoted<100>(failure.field),
        quoted<600>(failure.text)));
  file.write(Text<256>::format("  \"writtenNs\": {}, \"operations\": {}, \"entries\": [", now, recorder.count()));
  bool first = true;
  recorder.each([&](const FlightFacts& facts) {
    writeFacts(file, facts, wallMinusSteady, first);
    first = false;
  });
  file.write(Text<16>("\n  ]\n}\n"));
  return file.finish();
}

}  // namespace sparsecoll
