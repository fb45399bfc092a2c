// SPDX-License-Identifier: Apache-2.0
#include "examples/speech/decoding.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace examples {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double logAdd(double a, double b) {
  const double larger = std::max(a, b);
  return larger == kNever ? kNever : larger + std::log1p(std::exp(std::min(a, b) - larger));
}

constexpr size_t kRoot = 0;

/// Texts as a tree: a node is its parent's text and one label more. blank and label are the logarithms of the
/// probabilities of all ways to spell the text that end with a blank, and that end with its last label.
class Prefixes {
 public:
  explicit Prefixes(size_t labels) : labels_(labels) {
    add(kRoot, kBlank);
    nodes_[kRoot].blank = 0;
    live_ = {kRoot};
  }

  void step(const float* row, float floor);
  void keep(size_t width);
  std::vector<Label> best() const;

 private:
  struct Node {
    size_t parent;
    Label last;
    double blank = kNever, label = kNever;
    double nextBlank = kNever, nextLabel = kNever;
    bool touched = false;

    double total() const { return logAdd(blank, label); }
  };

  size_t add(size_t parent, Label last) {
    nodes_.push_back({parent, last});
    children_.resize(nodes_.size() * labels_, kRoot);
    return nodes_.size() - 1;
  }

  size_t child(size_t parent, Label last) {
    const size_t place = parent * labels_ + last;
    if (children_[place] == kRoot) {
      const size_t made = add(parent, last);
      children_[place] = made;
    }
    return children_[place];
  }

  Node& touch(size_t index) {
    Node& node = nodes_[index];
    if (!node.touched) {
      node.touched = true;
      next_.push_back(index);
    }
    return node;
  }

  size_t labels_;
  std::vector<Node> nodes_;
  std::vector<size_t> children_;  // kRoot, which is nobody's child, stands for none
  std::vector<size_t> live_, next_;
};

void Prefixes::step(const float* row, float floor) {
  next_.clear();
  for (const size_t index : live_) {
    const double blank = nodes_[index].blank, label = nodes_[index].label, total = nodes_[index].total();
    const Label last = nodes_[index].last;
    Node& same = touch(index);
    same.nextBlank = logAdd(same.nextBlank, total + row[kBlank]);
    if (index != kRoot) same.nextLabel = logAdd(same.nextLabel, label + row[last]);
    for (size_t next = 1; next < labels_; ++next) {
      if (row[next] < floor) continue;
      const bool repeats = index != kRoot && next == last;  // counts as another one behind a blank only
      Node& longer = touch(child(index, static_cast<Label>(next)));
      longer.nextLabel = logAdd(longer.nextLabel, (repeats ? blank : total) + row[next]);
    }
  }
  for (const size_t index : next_) {
    Node& node = nodes_[index];
    node.blank = std::exchange(node.nextBlank, kNever);
    node.label = std::exchange(node.nextLabel, kNever);
    node.touched = false;
  }
  live_.swap(next_);
}

// Of equally likely ones those that were met first.
void Prefixes::keep(size_t width) {
  if (live_.size() <= width) return;
  const auto better = [this](size_t a, size_t b) {
    const double left = nodes_[a].total(), right = nodes_[b].total();
    return left != right ? left > right : a < b;
  };
  std::nth_element(live_.begin(), live_.begin() + static_cast<std::ptrdiff_t>(width), live_.end(), better);
  live_.resize(width);
}

std::vector<Label> Prefixes::best() const {
  size_t at = *std::max_element(live_.begin(), live_.end(), [this](size_t a, size_t b) {
    const double left = nodes_[a].total(), right = nodes_[b].total();
    return left != right ? left < right : a > b;
  });
  std::vector<Label> labels;
  for (; at != kRoot; at = nodes_[at].parent) labels.push_back(nodes_[at].last);
  std::reverse(labels.begin(), labels.end());
  return labels;
}

template <class Sequence>
size_t editDistance(const Sequence& from, const Sequence& to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < from.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < to.size(); ++j) {
      const size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::vector<std::string_view> wordsOf(std::string_view text) {
  std::vector<std::string_view> words;
  for (size_t at = text.find_first_not_of(' '); at != text.npos;) {
    const size_t stop = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, stop - at));
    at = text.find_first_not_of(' ', stop);
  }
  return words;
}

}  // namespace

std::vector<Label> decodeGreedy(const LabelScores& scores) {
  std::vector<Label> labels;
  Label before = kBlank;
  for (size_t step = 0; step < scores.steps; ++step) {
    const float* row = scores.row(step);
    const auto likeliest = static_cast<Label>(std::max_element(row, row + scores.labels) - row);
    if (likeliest != before && likeliest != kBlank) labels.push_back(likeliest);
    before = likeliest;
  }
  return labels;
}

std::vector<Label> decodeBeam(const LabelScores& scores, size_t width, float floor) {
  Prefixes prefixes(scores.labels);
  for (size_t step = 0; step < scores.steps; ++step) {
    prefixes.step(scores.row(step), floor);
    prefixes.keep(width);
  }
  return prefixes.best();
}

size_t wrongCharacters(std::string_view text, std::string_view reference) { return editDistance(text, reference); }

size_t wrongWords(std::string_view text, std::string_view reference) {
  return editDistance(wordsOf(text), wordsOf(reference));
}

size_t countWords(std::string_view text) { return wordsOf(text).size(); }

}  // namespace examples
