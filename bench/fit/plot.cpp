#include "bench/fit/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace bench {

namespace {

constexpr double kPanelWidth = 860;
constexpr double kPanelHeight = 480;
constexpr double kLeft = 70, kRight = 660, kTop = 40, kBottom = 430;  // of a panel's axes
constexpr int kMeasuredPoints = 400;
constexpr int kFittedPoints = 80;
constexpr double kSmallestPart = 1e-4;  // of the largest magnitude: smaller ones are not drawn
constexpr double kLargestPart = 4;
constexpr const char* kMeasuredColour = "#000000";
constexpr const char* kGridColour = "#dddddd";
constexpr const char* kDensityColour = "#888888";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&' || c == '<' || c == '>')
      result += fmt::format("&#{};", static_cast<int>(c));
    else
      result += c;
  }
  return result;
}

// Where a value lies on a logarithmic axis from pixel `from` to pixel `to`.
struct Axis {
  double low, high;
  double from, to;

  double at(double value) const { return from + (to - from) * std::log(value / low) / std::log(high / low); }
  std::vector<int> decades() const {
    std::vector<int> found;
    for (int decade = static_cast<int>(std::ceil(std::log10(low) - 1e-9)); std::pow(10, decade) <= high * (1 + 1e-9);
         ++decade)
      found.push_back(decade);
    return found;
  }
};

std::string line(double x1, double y1, double x2, double y2, const char* colour, const char* more = "") {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" {}/>\n", x1, y1, x2,
                     y2, colour, more);
}

std::string text(double x, double y, const char* anchor, const std::string& content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(content));
}

// So many k between 1 and most, equally far from each other on a logarithmic axis; small ones once each.
std::vector<uint64_t> spreadCounts(uint64_t most, int points) {
  std::vector<uint64_t> counts;
  for (int i = 0; i <= points; ++i) {
    const double exponent = static_cast<double>(i) / points;
    const auto k = static_cast<uint64_t>(std::llround(std::pow(static_cast<double>(most), exponent)));
    if (counts.empty() || k > counts.back()) counts.push_back(k);
  }
  return counts;
}

class Panel {
 public:
  Panel(const Analysis& analysis, size_t index)
      : analysis_(analysis),
        exact_(analysis.exact),
        index_(index),
        n_(static_cast<double>(exact_.n())),
        x_{std::max(exact_.smallest(), exact_.largest() * kSmallestPart), exact_.largest() * kLargestPart, kLeft,
           kRight},
        y_{0.5 / n_, 1, kBottom, kTop} {}

  std::string svg() {
    std::string result =
        fmt::format("<g transform=\"translate(0 {:.0f})\">\n", static_cast<double>(index_) * kPanelHeight);
    result += text(kLeft, kTop - 15, "start", fmt::format("{}: n {}", analysis_.file, exact_.n()));
    result += exact_.nonZeros() == 0 ? text(kLeft, kTop + 30, "start", "no entry differs from 0") : axes() + curves();
    return result + "</g>\n";
  }

 private:
  double share(uint64_t k) const { return static_cast<double>(k) / n_; }

  std::string axes() const {
    std::string result;
    for (const int decade : x_.decades()) {
      const double x = x_.at(std::pow(10, decade));
      result += line(x, kTop, x, kBottom, kGridColour) + text(x, kBottom + 18, "middle", fmt::format("1e{}", decade));
    }
    for (const int decade : y_.decades()) {
      const double y = y_.at(std::pow(10, decade));
      result += line(kLeft, y, kRight, y, kGridColour) + text(kLeft - 6, y + 4, "end", fmt::format("1e{}", decade));
    }
    for (const AtDensity& at : analysis_.densities)
      result +=
          line(kLeft, y_.at(share(at.k)), kRight, y_.at(share(at.k)), kDensityColour, "stroke-dasharray=\"2 4\" ");
    result += text((kLeft + kRight) / 2, kBottom + 38, "middle", "magnitude (dotted: the densities)");
    result += fmt::format(
        "<text transform=\"translate(16 {:.0f}) rotate(-90)\" text-anchor=\"middle\">share of the "
        "entries that is larger</text>\n",
        (kTop + kBottom) / 2);
    return result;
  }

  std::string curves() {
    std::string result = fmt::format(
        "<clipPath id=\"panel{}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>\n"
        "<g clip-path=\"url(#panel{})\">\n",
        index_, kLeft, kTop, kRight - kLeft, kBottom - kTop, index_);
    std::string legend;
    const auto add = [&](const char* name, const char* colour, const char* style, const std::string& points) {
      const double y = kTop + 10 + 22 * static_cast<double>(curves_++);
      result += fmt::format("<polyline fill=\"none\" stroke=\"{}\" {} points=\"{}\"/>\n", colour, style, points);
      legend += line(kRight + 15, y, kRight + 50, y, colour, style) + text(kRight + 58, y + 4, "start", name);
    };
    add("measured", kMeasuredColour, "stroke-width=\"3\" ", measured());
    for (const Estimator& estimator : estimators())
      if (estimator.colour != nullptr)
        add(estimator.name, estimator.colour,
            estimator.dashed ? "stroke-width=\"1.5\" stroke-dasharray=\"6 4\" " : "stroke-width=\"1.5\" ",
            estimated(estimator));
    return result + "</g>\n" + legend;
  }

  std::string measured() const {
    std::string points;
    for (const uint64_t k : spreadCounts(exact_.nonZeros(), kMeasuredPoints)) points += point(exact_.topK(k), k);
    return points;
  }

  std::string estimated(const Estimator& estimator) const {
    std::string points;
    for (const uint64_t k : spreadCounts(exact_.nonZeros(), kFittedPoints))
      points += point(estimator.threshold(analysis_.sample, k), k);
    return points;
  }

  std::string point(double magnitude, uint64_t k) const {
    if (!(magnitude > 0)) return "";
    return fmt::format("{:.1f},{:.1f} ", x_.at(magnitude), y_.at(share(k)));
  }

  const Analysis& analysis_;
  const ExactMagnitudes& exact_;
  size_t index_;
  double n_;
  Axis x_, y_;
  int curves_ = 0;
};

}  // namespace

std::string plotOf(const std::vector<Analysis>& analyses) {
  const double height = kPanelHeight * static_cast<double>(analyses.size());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      kPanelWidth, height);
  for (size_t i = 0; i < analyses.size(); ++i) svg += Panel(analyses[i], i).svg();
  return svg + "</svg>\n";
}

}  // namespace bench
