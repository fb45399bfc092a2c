// Results as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "bench/device/cases.h"

namespace bench {

struct CaseKey {
  std::string name;
  uint64_t n = 0;
  std::optional<double> density;
  std::string who;
};

class Report {
 public:
  explicit Report(const Settings& settings);

  void begin() const;
  void note(const std::string& text) const;
  // The rows "copy" and "inplace_add" of a length come first; those behind them are compared with them.
  void add(const CaseKey& place, const Outcome& outcome);
  // The rows of this length in another program's file.
  void addOf(const nlohmann::json& file, uint64_t n);
  // A case that could not be run here, and why.
  void skip(const CaseKey& place, const std::string& reason);
  bool anyWrong() const { return anyWrong_; }
  std::string json() const;

 private:
  void addRow(const std::string& name, nlohmann::json row);

  nlohmann::json json_;
  double copyRate_ = 0;  // bytes a second, of the latest length
  double addRate_ = 0;
  bool anyWrong_ = false;
};

// A file of rows; throws where it is none.
nlohmann::json readRows(const std::string& path);

}  // namespace bench
