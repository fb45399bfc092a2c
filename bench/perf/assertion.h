// "speedup>=1.2 @ density<=0.01, preset==topka": a bound on a field of every result that meets the conditions.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace bench {

class Assertion {
 public:
  // Throws UsageError.
  explicit Assertion(std::string text);

  const std::string& metric() const { return bound_.field; }
  // What is wrong, or nothing. It is wrong, too, if no result meets the conditions.
  std::optional<std::string> failure(const nlohmann::json& rows) const;

 private:
  struct Comparison {
    std::string field, relation, value;
    bool holds(const nlohmann::json& row) const;
    bool appliesTo(const nlohmann::json& row) const;
  };
  static Comparison comparison(const std::string& text, const std::string& whole);

  std::string text_;
  Comparison bound_;
  std::vector<Comparison> conditions_;
};

}  // namespace bench
