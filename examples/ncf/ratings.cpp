// SPDX-License-Identifier: Apache-2.0
#include "examples/ncf/ratings.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "examples/common/lines.h"
#include "examples/common/random.h"

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDefaultDirectory = "../shared/data/ml-latest-small";
constexpr const char* kHeader = "userId,movieId,rating,timestamp";
constexpr int64_t kLargestId = std::numeric_limits<int32_t>::max();
constexpr int64_t kLargestTime = int64_t{1} << 40;

// Half stars from 0.5 to 5.
bool isRating(std::string_view text) {
  const size_t point = text.find('.');
  const int64_t whole = parseNumber(text.substr(0, point), 5);
  const std::string_view digits = point == text.npos ? "0" : text.substr(point + 1);
  const int64_t rest = digits.size() == 1 ? parseNumber(digits, 5) : -1;
  return whole >= 0 && (rest == 0 || (rest == 5 && whole < 5)) && whole + rest > 0;
}

Rating parseRating(const LineReader& reader, std::string_view line, std::string_view separator) {
  std::string_view fields[4];
  for (size_t i = 0; i < 4; ++i) {
    const size_t stop = line.find(separator);
    if ((stop == line.npos) != (i == 3)) {
      reader.fail("four fields expected: user, item, rating, timestamp, with '" + std::string(separator) + "' between");
    }
    fields[i] = line.substr(0, stop);
    if (i < 3) line.remove_prefix(stop + separator.size());
  }
  const int64_t user = parseNumber(fields[0], kLargestId), item = parseNumber(fields[1], kLargestId);
  const int64_t time = parseNumber(fields[3], kLargestTime);
  if (user < 0) reader.fail("the user '" + std::string(fields[0]) + "' is no number");
  if (item < 0) reader.fail("the item '" + std::string(fields[1]) + "' is no number");
  if (!isRating(fields[2])) reader.fail("the rating '" + std::string(fields[2]) + "' is none of 0.5, 1, ..., 5");
  if (time < 0) reader.fail("the timestamp '" + std::string(fields[3]) + "' is no number");
  return {static_cast<uint32_t>(user), static_cast<uint32_t>(item), time};
}

/// Gives ids the numbers 0, 1, ... in the order in which they come.
class Numbering {
 public:
  uint32_t operator()(uint32_t id) {
    return numbers_.emplace(id, static_cast<uint32_t>(numbers_.size())).first->second;
  }
  size_t size() const { return numbers_.size(); }

 private:
  std::unordered_map<uint32_t, uint32_t> numbers_;
};

std::vector<Rating> usersWithEnough(const std::vector<Rating>& ratings, const SplitOptions& options) {
  std::unordered_map<uint32_t, size_t> counts;
  for (const auto& rating : ratings) ++counts[rating.user];
  std::unordered_set<uint32_t> kept;
  std::vector<Rating> result;
  for (const auto& rating : ratings) {
    if (counts[rating.user] < std::max<size_t>(options.minRatings, 2)) continue;
    if (options.maxUsers != 0 && kept.size() >= options.maxUsers && kept.count(rating.user) == 0) continue;
    kept.insert(rating.user);
    result.push_back(rating);
  }
  if (result.empty()) {
    throw std::runtime_error("no user has " + std::to_string(options.minRatings) + " ratings, which a split needs");
  }
  return result;
}

void drawNegatives(const std::unordered_set<uint32_t>& rated, size_t count, Random random, Interactions& out) {
  if (out.items < rated.size() + count) {
    throw std::runtime_error("a user has rated " + std::to_string(rated.size()) + " of " + std::to_string(out.items) +
                             " items, which leaves fewer than " + std::to_string(count) + " to compare with");
  }
  auto taken = rated;
  for (size_t drawn = 0; drawn < count;) {
    const uint32_t item = random.below(static_cast<uint32_t>(out.items));
    if (!taken.insert(item).second) continue;
    out.testNegatives.push_back(item);
    ++drawn;
  }
}

}  // namespace

std::vector<Rating> readRatings(const fs::path& directory) {
  if (!fs::is_directory(directory)) throw std::runtime_error(directory.string() + ": no such directory");
  const bool table = fs::is_regular_file(directory / "ratings.csv");
  if (!table && !fs::is_regular_file(directory / "ratings.dat")) {
    throw std::runtime_error(directory.string() + ": holds neither ratings.csv nor ratings.dat");
  }
  LineReader reader(directory / (table ? "ratings.csv" : "ratings.dat"));
  std::vector<Rating> ratings;
  std::string_view line;
  if (table && reader.next(line) && line != kHeader) reader.fail(std::string("the header ") + kHeader + " expected");
  while (reader.next(line)) ratings.push_back(parseRating(reader, line, table ? "," : "::"));
  if (ratings.empty()) reader.fail("no rating follows");
  return ratings;
}

Interactions splitRatings(const std::vector<Rating>& ratings, const SplitOptions& options) {
  auto kept = usersWithEnough(ratings, options);
  Numbering users, items;
  for (auto& rating : kept) rating = {users(rating.user), items(rating.item), rating.timestamp};
  Interactions out;
  out.users = users.size();
  out.items = items.size();
  // The place in the file decides between equal times.
  std::vector<std::pair<Rating, size_t>> placed;
  for (size_t i = 0; i < kept.size(); ++i) placed.push_back({kept[i], i});
  std::sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.user, a.first.timestamp, a.second) < std::tie(b.first.user, b.first.timestamp, b.second);
  });
  for (size_t first = 0; first < placed.size();) {
    const uint32_t user = placed[first].first.user;
    size_t last = first;
    std::unordered_map<uint32_t, size_t> latest;
    for (; last < placed.size() && placed[last].first.user == user; ++last) latest[placed[last].first.item] = last;
    for (size_t i = first; i + 1 < last; ++i) {
      const uint32_t item = placed[i].first.item;
      if (latest[item] != i) continue;
      out.trainUsers.push_back(user);
      out.trainItems.push_back(item);
    }
    out.testItems.push_back(placed[last - 1].first.item);
    std::unordered_set<uint32_t> rated;
    for (const auto& [item, place] : latest) rated.insert(item);
    drawNegatives(rated, options.testNegatives, Random(options.seed, 8, user), out);
    first = last;
  }
  return out;
}

std::vector<Rating> makeSyntheticRatings(size_t users, size_t items, uint64_t seed) {
  constexpr uint32_t kGroups = 8;
  if (items < 32 * kGroups) throw std::invalid_argument("synthetic ratings need 256 items or more");
  Random random(seed, 9);
  std::vector<Rating> ratings;
  const auto bound = static_cast<uint32_t>(items);
  for (uint32_t user = 0; user < users; ++user) {
    const uint32_t visits = 20 + random.below(20);
    std::unordered_set<uint32_t> seen;
    for (uint32_t visit = 0; visit < visits; ++visit) {
      const uint32_t any = random.below(bound);
      const uint32_t own = any - any % kGroups + user % kGroups;
      const uint32_t item = random.below(4) != 0 && own < bound ? own : any;
      if (seen.insert(item).second) ratings.push_back({user, item, int64_t{visit}});
    }
  }
  return ratings;
}

Interactions openInteractions(const std::string& directory, const SplitOptions& options) {
  const bool isHere = fs::is_directory(kDefaultDirectory);
  if (!directory.empty() || isHere) {
    const fs::path path = directory.empty() ? kDefaultDirectory : directory;
    Interactions out;
    try {
      out = splitRatings(readRatings(path), options);
    } catch (const std::runtime_error& error) {
      const std::string what = error.what();
      const bool named = what.rfind(path.string(), 0) == 0;
      throw std::runtime_error(named ? what : path.string() + ": " + what);
    }
    out.source = path.string();
    return out;
  }
  SplitOptions few = options;
  few.minRatings = std::min<size_t>(options.minRatings, 10);  // some visits of a user are to the same item
  auto out = splitRatings(makeSyntheticRatings(600, 800, options.seed), few);
  out.source = "SYNTHETIC visits, not MovieLens (seed " + std::to_string(options.seed) + ")";
  out.synthetic = true;
  return out;
}

}  // namespace examples
