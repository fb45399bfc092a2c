// The table on the terminal and the JSON file.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/perf/options.h"
#include "bench/perf/roofline.h"
#include "bench/perf/row.h"

namespace bench {

struct Column;

class Report {
 public:
  explicit Report(const Options& options);

  void begin();  // heading
  // What ranks talk over, and where they are.
  void path(const sparsecollCommDetails_t& details, const std::vector<World::Place>& places);
  void addRoofline(const Shape& shape, const Roofline& roofline, uint32_t flags);
  void note(const std::string& text);
  void add(const Row& row);

  // Where sparse was faster than dense, and where not, in words.
  void conclude();

  const nlohmann::json& rows() const { return json_["rows"]; }
  bool anyWrong() const { return anyWrong_; }
  std::string json() const;
  std::string csv() const;  // the rows, by name

 private:
  int widthOf(const Column& column) const;

  nlohmann::json json_;
  bool anyWrong_ = false;
  bool columnsShown_ = false;
  bool nodes_ = false;    // steps go over nodes
  bool threads_ = false;  // ranks of one process, on the host
  int presetWidth_ = 9;
};

}  // namespace bench
