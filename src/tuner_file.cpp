#include "src/tuner_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "core/environment.h"
#include "src/agreed_fields.h"

namespace sparsecoll {

namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr double kFar = 2;  // times what was measured
constexpr double kMostMs = 1e9;
constexpr uint64_t kMostRanks = 1 << 20;

template <class Number>
bool isNumber(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// The text before the next separator, which is taken away together with it.
std::string_view take(std::string_view& text, char separator) {
  const size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

// On the line through two points, at x. Steps take a latency and a time that grows with what they work on. No function
// of another library: all ranks get the same bits.
double onLine(double x, double x0, double y0, double x1, double y1) { return y0 + (x - x0) / (x1 - x0) * (y1 - y0); }

std::string columns() {
  std::string names = kTunerElements;
  names.append(",").append(kTunerDensity);
  for (const CandidateRow& row : kCandidates) names.append(",").append(row.preset);
  return names;
}

}  // namespace

class TunerFile::Reading {
 public:
  Reading(std::string_view text, const char* path) : text_(text), path_(path) {}

  Result<TunerFile> run() {
    if (!next() || line_ != kTunerTitle) return wrong("the first line is not '{}'", kTunerTitle);
    SC_TRY(head(kTunerRanks, made_.maker_.ranks));
    SC_TRY(head(kTunerNodes, made_.maker_.nodes));
    SC_TRY(head(kTunerEngine, made_.maker_.engine));
    SC_TRY(head(kTunerType, made_.maker_.type));
    const std::string names = columns();
    if (!next() || line_ != names) return wrong("the columns are not '{}': make the file anew", names);
    while (next()) SC_TRY(row());
    if (made_.rows_.empty()) return wrong("no times");
    std::ranges::sort(made_.rows_, [](const Row& a, const Row& b) {
      return std::pair(a.density, a.elements) < std::pair(b.density, b.elements);
    });
    made_.hash_ = hash();
    return std::move(made_);
  }

 private:
  // The next line that says something.
  bool next() {
    while (!text_.empty()) {
      ++number_;
      line_ = take(text_, '\n');
      if (number_ == 1 || !line_.starts_with('#')) return true;
    }
    ++number_;
    line_ = {};
    return false;
  }

  template <class... Args>
  Status wrong(fmt::format_string<Args...> text, Args&&... args) const {
    return invalid("{}: {}:{}: {}", variable::kTunerFile, path_, number_,
                   Text<160>::format(text, std::forward<Args>(args)...));
  }

  Result<std::string_view> valueOf(const char* name) {
    if (!next()) return wrong("'{},' is missing", name);
    std::string_view value = line_;
    if (take(value, ',') != name || value.empty()) return wrong("'{}' is not '{},' and its value", line_, name);
    return value;
  }
  Status head(const char* name, uint64_t& number) {
    SC_TRY(const std::string_view value, valueOf(name));
    if (!isNumber(value, number) || number < 1 || number > kMostRanks)
      return wrong("'{}' is no number of {}", value, name);
    return {};
  }
  Status head(const char* name, std::string& text) {
    SC_TRY(const std::string_view value, valueOf(name));
    text = value;
    return {};
  }

  Status row() {
    std::string_view rest = line_;
    Row row;
    const std::string_view elements = take(rest, ',');
    if (!isNumber(elements, row.elements) || row.elements < 1) return wrong("'{}' is no number of elements", elements);
    const std::string_view density = take(rest, ',');
    if (!isNumber(density, row.density) || !(row.density > 0 && row.density <= 1))
      return wrong("'{}' is no density above 0 and up to 1", density);
    for (size_t c = 0; c < kCandidateCount; ++c) {
      const std::string_view time = take(rest, ',');
      if (!isNumber(time, row.ms[c]) || !(row.ms[c] > 0 && row.ms[c] <= kMostMs))
        return wrong("'{}' is no time of {} in milliseconds", time, kCandidates[c].preset);
    }
    if (!rest.empty() || line_.ends_with(',')) return wrong("more than {} values", kCandidateCount + 2);
    for (const Row& other : made_.rows_)
      if (other.elements == row.elements && other.density == row.density)
        return wrong("{} elements at density {} stand in an earlier line, too", elements, density);
    made_.rows_.push_back(row);
    return {};
  }

  uint64_t hash() const {
    AgreedFields fields = {{kTunerRanks, made_.maker_.ranks}, {kTunerNodes, made_.maker_.nodes}};
    fields.push_back({made_.maker_.engine.c_str(), 0});
    fields.push_back({made_.maker_.type.c_str(), 0});
    for (const Row& row : made_.rows_) {
      fields.push_back({kTunerElements, row.elements});
      fields.push_back({kTunerDensity, std::bit_cast<uint64_t>(row.density)});
      for (const double ms : row.ms) fields.push_back({"ms", std::bit_cast<uint64_t>(ms)});
    }
    return hashOf("tuner file", fields) | 1;
  }

  std::string_view text_, line_;
  const char* const path_;
  size_t number_ = 0;  // of the line
  TunerFile made_;
};

Result<TunerFile> TunerFile::parse(std::string_view text, const char* path) { return Reading(text, path).run(); }

Result<TunerFile> TunerFile::read(const char* path) {
  const auto unread = [&](const char* why) {
    return fail(sparsecollSystemError, "{}: {}: {}", variable::kTunerFile, path, why);
  };
  const auto close = [](std::FILE* file) { std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path, "re"), close);
  if (file == nullptr) return unread(std::strerror(errno));
  std::string text(kMostBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return unread(std::strerror(errno));
  if (text.size() > kMostBytes) return unread("longer than any tuner file");
  return parse(text, path);
}

std::span<const TunerFile::Row> TunerFile::curveOf(size_t row) const {
  const auto same = [&](const Row& other) { return other.density == rows_[row].density; };
  const auto begin = std::ranges::find_if(rows_, same);
  return {begin, std::find_if_not(begin, rows_.end(), same)};
}

double TunerFile::msAt(std::span<const Row> curve, size_t candidate, double n) {
  const auto elements = [&](size_t at) { return static_cast<double>(curve[at].elements); };
  const auto ms = [&](size_t at) { return curve[at].ms[candidate]; };
  const size_t last = curve.size() - 1;
  if (n * kFar < elements(0) || n > kFar * elements(last)) return 0;
  if (n <= elements(0)) return ms(0);
  if (last == 0) return ms(0) * n / elements(0);
  size_t after = 1;
  while (after < last && elements(after) < n) ++after;
  const double there = onLine(n, elements(after - 1), ms(after - 1), elements(after), ms(after));
  return n > elements(last) ? std::max(there, ms(last)) : there;
}

double TunerFile::nsOf(size_t candidate, uint64_t n, double density) const {
  constexpr double kNsPerMs = 1e6;
  if (density * kFar < rows_.front().density || density > kFar * rows_.back().density) return 0;
  const double inside = std::clamp(density, rows_.front().density, rows_.back().density);
  const auto length = static_cast<double>(n);
  const auto above = std::ranges::find_if(rows_, [&](const Row& row) { return row.density >= inside; });
  const std::span<const Row> upper = curveOf(static_cast<size_t>(above - rows_.begin()));
  const double upperMs = msAt(upper, candidate, length);
  if (upper.front().density == inside || upperMs == 0) return upperMs * kNsPerMs;
  const std::span<const Row> lower = curveOf(static_cast<size_t>(above - rows_.begin()) - 1);
  const double lowerMs = msAt(lower, candidate, length);
  if (lowerMs == 0) return 0;
  return onLine(inside, lower.front().density, lowerMs, upper.front().density, upperMs) * kNsPerMs;
}

}  // namespace sparsecoll
