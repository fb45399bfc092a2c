#include "bench/fit/report.h"

#include <fmt/core.h>

#include <cstdio>
#include <nlohmann/json.hpp>

namespace bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTopK = "exact top-k";

double ratio(uint64_t part, uint64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

void printLine(const Estimate& estimate, const AtDensity& at) {
  const std::string toExact = at.topK > 0 ? fmt::format("{:.3f}", estimate.threshold / at.topK) : "-";
  fmt::print("  {:<20} {:>12.5g} {:>9} {:>10} {:>8.3f}\n", estimate.name, estimate.threshold, toExact, estimate.kept,
             ratio(estimate.kept, at.k));
}

void printFits(const Analysis& analysis) {
  if (!analysis.fits) {
    fmt::print("  no fits: fewer than two entries of the sample differ from 0\n");
    return;
  }
  const Fits& fits = *analysis.fits;
  fmt::print("  fits ({} sampled): exponential mean {:.5g}; gamma shape {:.4g}, scale {:.5g}; ",
             analysis.sample.control().sampled, fits.exponentialMean, fits.gammaShape, fits.gammaScale);
  fmt::print("Pareto shape {:.4g}, scale {:.5g}\n", -fits.pareto.c, fits.pareto.s);
}

Json toJson(const Estimate& estimate, const AtDensity& at) {
  return {{"estimator", estimate.name},
          {"threshold", estimate.threshold},
          {"threshold_to_exact", estimate.threshold / at.topK},
          {"kept", estimate.kept},
          {"kept_to_k", ratio(estimate.kept, at.k)}};
}

Json toJson(const std::optional<Fits>& fits) {
  if (!fits) return nullptr;
  return {{"exponential", {{"mean", fits->exponentialMean}}},
          {"gamma", {{"shape", fits->gammaShape}, {"scale", fits->gammaScale}}},
          {"pareto", {{"shape", -fits->pareto.c}, {"scale", fits->pareto.s}}}};
}

Json toJson(const Analysis& analysis) {
  const ExactMagnitudes& exact = analysis.exact;
  const ExactMoments& moments = analysis.moments;
  Json json = {{"file", analysis.file},
               {"n", exact.n()},
               {"zeros", exact.finite() - exact.nonZeros()},
               {"not_finite", exact.n() - exact.finite()},
               {"sampled", analysis.sample.control().sampled},
               {"moments",
                {{"mean", moments.mean},
                 {"deviation", moments.deviation},
                 {"skewness", moments.skewness},
                 {"kurtosis", moments.kurtosis},
                 {"mean_ln", moments.meanLn},
                 {"largest", exact.largest()}}},
               {"fits", toJson(analysis.fits)},
               {"densities", Json::array()}};
  for (const AtDensity& at : analysis.densities) {
    Json rows = Json::array();
    for (const Estimate& estimate : at.estimates) rows.push_back(toJson(estimate, at));
    json["densities"].push_back(
        {{"density", at.density}, {"k", at.k}, {"exact_threshold", at.topK}, {"estimators", rows}});
  }
  return json;
}

}  // namespace

void print(const Analysis& analysis) {
  const ExactMagnitudes& exact = analysis.exact;
  const ExactMoments& moments = analysis.moments;
  fmt::print("{}\n  n {}, zeros {}, not finite {}\n", analysis.file, exact.n(), exact.finite() - exact.nonZeros(),
             exact.n() - exact.finite());
  fmt::print("  |x|: mean {:.5g}, deviation {:.5g}, skewness {:.4g}, kurtosis {:.4g}, mean ln {:.5g}, largest {:.5g}\n",
             moments.mean, moments.deviation, moments.skewness, moments.kurtosis, moments.meanLn, exact.largest());
  printFits(analysis);
  for (const AtDensity& at : analysis.densities) {
    fmt::print("\n  {:<20} {:>12} {:>9} {:>10} {:>8}\n", fmt::format("density {:.5g}", at.density), "threshold",
               "/ exact", "kept", "kept/k");
    printLine({kTopK, at.topK, at.k}, at);
    for (const Estimate& estimate : at.estimates) printLine(estimate, at);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

std::string jsonOf(const std::vector<Analysis>& analyses) {
  Json json = {{"program", "sparsecoll-fit"}, {"files", Json::array()}};
  for (const Analysis& analysis : analyses) json["files"].push_back(toJson(analysis));
  return json.dump(2) + "\n";
}

}  // namespace bench
