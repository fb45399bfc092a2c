#include "bench/perf/assertion.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "bench/common/errors.h"

namespace bench {

namespace {

struct Alias {
  const char* name;
  const char* field;
};

constexpr Alias kAliases[] = {
    {"speedup", "speedup_dense"}, {"total", "total_us"},       {"p50", "p50_us"},         {"p99", "p99_us"},
    {"select", "select_us"},      {"exchange", "exchange_us"}, {"scatter", "scatter_us"}, {"wire", "wire_percent"},
    {"roofline", "roofline_us"},
};

const std::set<std::string> kRelations = {">=", "<=", "==", "!=", ">", "<"};

template <class T>
bool compare(const T& a, const std::string& relation, const T& b) {
  if (relation == ">=") return a >= b;
  if (relation == "<=") return a <= b;
  if (relation == "==") return a == b;
  if (relation == "!=") return a != b;
  return relation == ">" ? a > b : a < b;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> pieces;
  std::istringstream stream(text);
  for (std::string piece; std::getline(stream, piece, separator);) pieces.push_back(piece);
  return pieces;
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

}  // namespace

Assertion::Assertion(std::string text) : text_(std::move(text)) {
  const std::vector<std::string> halves = split(text_, '@');
  if (halves.empty() || halves.size() > 2) throw UsageError("--assert " + text_ + ": write BOUND @ CONDITIONS");
  bound_ = comparison(halves[0], text_);
  if (halves.size() == 1) return;
  for (const std::string& condition : split(halves[1], ',')) conditions_.push_back(comparison(condition, text_));
}

Assertion::Comparison Assertion::comparison(const std::string& text, const std::string& whole) {
  const size_t at = std::min(text.find_first_of("<>=!"), text.size());
  const size_t end = std::min(text.find_first_not_of("<>=!", at), text.size());
  Comparison result{trimmed(text.substr(0, at)), text.substr(at, end - at), trimmed(text.substr(end))};
  if (result.field.empty() || result.value.empty() || kRelations.count(result.relation) == 0)
    throw UsageError("--assert " + whole + ": \"" + text + "\" is no comparison");
  for (const Alias& alias : kAliases)
    if (result.field == alias.name) result.field = alias.field;
  return result;
}

// A field without a value (no speed-up was measured) meets no condition and breaks no bound. The baseline is not
// compared with itself.
bool Assertion::Comparison::appliesTo(const nlohmann::json& row) const {
  if (!row.contains(field)) throw UsageError("--assert: no field \"" + field + "\" in the results");
  return !row[field].is_null() && !(field == "speedup_dense" && row["preset"] == "dense");
}

bool Assertion::Comparison::holds(const nlohmann::json& row) const {
  const nlohmann::json& actual = row[field];
  if (actual.is_string()) return compare(actual.get<std::string>(), relation, value);
  try {
    return compare(actual.get<double>(), relation, std::stod(value));
  } catch (const std::logic_error&) {
    throw UsageError("--assert: \"" + value + "\" is no number to compare " + field + " with");
  }
}

std::optional<std::string> Assertion::failure(const nlohmann::json& rows) const {
  size_t compared = 0;
  for (const nlohmann::json& row : rows) {
    bool meant = bound_.appliesTo(row);
    for (const Comparison& condition : conditions_) meant = meant && condition.appliesTo(row) && condition.holds(row);
    if (!meant) continue;
    ++compared;
    if (!bound_.holds(row))
      return fmt::format("{}: {} is {} for {}, n {}, {}, density {}", text_, bound_.field, row[bound_.field].dump(),
                         row["preset"].get<std::string>(), row["n"].dump(), row["dtype"].get<std::string>(),
                         row["density"].dump());
  }
  if (compared == 0) return text_ + ": no result to compare";
  return std::nullopt;
}

}  // namespace bench
