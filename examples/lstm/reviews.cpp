// SPDX-License-Identifier: Apache-2.0
#include "examples/lstm/reviews.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "examples/common/lines.h"
#include "examples/common/random.h"
#include "examples/common/vocabulary.h"

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDefaultDirectory = "../shared/data/imdb";
constexpr int64_t kStars = 10;
constexpr int64_t kLargestId = 1000000000;

/// One review as it lies in a file.
struct Record {
  std::string text;
  uint8_t label;
};

// The data set leaves out reviews of 5 and 6 stars.
bool starsFit(int64_t stars, int64_t label) { return label == 1 ? stars >= 7 : stars >= 1 && stars <= 4; }

Record parseLine(const LineReader& reader, std::string_view line) {
  std::array<std::string_view, 3> fields;
  for (auto& field : fields) {
    const size_t tab = line.find('\t');
    if (tab == line.npos) reader.fail("four fields with tabs between them expected: label, stars, id, text");
    field = line.substr(0, tab);
    line.remove_prefix(tab + 1);
  }
  const int64_t label = parseNumber(fields[0], 1), stars = parseNumber(fields[1], kStars);
  if (label < 0) reader.fail("the label is '" + std::string(fields[0]) + "', labels are 0 and 1");
  if (!starsFit(stars, label)) {
    reader.fail("'" + std::string(fields[1]) + "' stars do not go with label " + std::to_string(label));
  }
  if (parseNumber(fields[2], kLargestId) < 0) reader.fail("the id '" + std::string(fields[2]) + "' is no number");
  if (line.empty()) reader.fail("the text is empty");
  return {std::string(line), static_cast<uint8_t>(label)};
}

std::vector<Record> readTable(const fs::path& path) {
  LineReader reader(path);
  std::vector<Record> records;
  std::string_view line;
  while (reader.next(line)) records.push_back(parseLine(reader, line));
  return records;
}

// "1821_4.txt": id and stars.
Record readFolderFile(const fs::path& path, uint8_t label) {
  const std::string name = path.stem().string();
  const size_t bar = name.find('_');
  const bool named = bar != name.npos && parseNumber(std::string_view(name).substr(0, bar), kLargestId) >= 0;
  const int64_t stars = named ? parseNumber(std::string_view(name).substr(bar + 1), kStars) : -1;
  if (!starsFit(stars, label)) {
    throw std::runtime_error(path.string() + ": the name should be ID_STARS.txt with stars that go with the folder");
  }
  return {readText(path), label};
}

std::vector<Record> readFolder(const fs::path& part) {
  std::vector<Record> records;
  for (const uint8_t label : {uint8_t{0}, uint8_t{1}}) {
    const fs::path folder = part / (label == 1 ? "pos" : "neg");
    if (!fs::is_directory(folder)) throw std::runtime_error(folder.string() + ": no such directory");
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() == ".txt") files.push_back(entry.path());
    }
    if (files.empty()) throw std::runtime_error(folder.string() + ": holds no .txt");
    std::sort(files.begin(), files.end());
    for (const auto& file : files) records.push_back(readFolderFile(file, label));
  }
  return records;
}

std::vector<Record> readPart(const fs::path& directory, const std::string& part) {
  for (const auto& name : {part + ".tsv", part + ".tsv.gz"}) {
    if (fs::is_regular_file(directory / name)) return readTable(directory / name);
  }
  if (fs::is_directory(directory / part)) return readFolder(directory / part);
  throw std::runtime_error(directory.string() + ": holds no " + part + ".tsv, " + part + ".tsv.gz or folder " + part);
}

// The files are sorted by verdict: a limit takes from both.
std::vector<Record> limited(std::vector<Record> records, size_t limit) {
  if (limit == 0 || limit >= records.size()) return records;
  std::vector<Record> kept;
  std::array<size_t, 2> room{limit / 2, limit - limit / 2};
  for (auto& record : records) {
    if (room[record.label] == 0) continue;
    --room[record.label];
    kept.push_back(std::move(record));
  }
  return kept;
}

// ---- the synthetic reviews ----

constexpr size_t kSyntheticWords = 1000;
constexpr size_t kSyntheticTrain = 4000;
constexpr size_t kSyntheticTest = 1000;
constexpr uint32_t kShortest = 20, kLongest = 60;

int32_t drawWord(Random& random, uint32_t words, uint8_t label) {
  const uint32_t tenth = std::max(words / 20, 1u);  // of each mood
  if (random.below(5) != 0) return static_cast<int32_t>(2 + 2 * tenth + random.below(words - 2 - 2 * tenth));
  const bool honest = random.below(4) != 0;
  const uint32_t mood = (label == 1) == honest ? 1 : 0;
  return static_cast<int32_t>(2 + mood * tenth + random.below(tenth));
}

ReviewSet drawReviews(size_t count, uint32_t words, Random random) {
  ReviewSet set;
  for (size_t i = 0; i < count; ++i) {
    set.labels.push_back(static_cast<uint8_t>(i % 2));
    const uint32_t length = kShortest + random.below(kLongest - kShortest + 1);
    for (uint32_t word = 0; word < length; ++word) set.tokens.push_back(drawWord(random, words, set.labels.back()));
    set.ends.push_back(set.tokens.size());
  }
  return set;
}

}  // namespace

std::vector<std::string> reviewWords(std::string_view text) {
  constexpr std::string_view kBreak = "<br />";
  std::vector<std::string> words;
  std::string word;
  const auto close = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool upper = c >= 'A' && c <= 'Z';
    // Bytes above 127 belong to letters of UTF-8.
    if (upper || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '\'' || (c & 0x80) != 0) {
      word.push_back(upper ? static_cast<char>(c - 'A' + 'a') : c);
      continue;
    }
    close();
    if (text.compare(i, kBreak.size(), kBreak) == 0) i += kBreak.size() - 1;
  }
  close();
  return words;
}

Reviews readReviews(const fs::path& directory, const ReviewLimits& limits) {
  if (!fs::is_directory(directory)) throw std::runtime_error(directory.string() + ": no such directory");
  Reviews reviews;
  Vocabulary vocabulary;
  for (const auto& record : limited(readPart(directory, "train"), limits.trainReviews)) {
    for (const auto& word : reviewWords(record.text)) reviews.train.tokens.push_back(vocabulary.count(word));
    reviews.train.ends.push_back(reviews.train.tokens.size());
    reviews.train.labels.push_back(record.label);
  }
  const auto newId = vocabulary.freeze({"<pad>", "<unk>"}, limits.vocabulary);
  for (auto& token : reviews.train.tokens) token = std::max(newId[static_cast<size_t>(token)], kUnknownWord);
  for (const auto& record : limited(readPart(directory, "test"), limits.testReviews)) {
    for (const auto& word : reviewWords(record.text)) {
      reviews.test.tokens.push_back(std::max(vocabulary.find(word), kUnknownWord));
    }
    reviews.test.ends.push_back(reviews.test.tokens.size());
    reviews.test.labels.push_back(record.label);
  }
  reviews.vocabulary = vocabulary.size();
  reviews.source = directory.string();
  return reviews;
}

Reviews makeSyntheticReviews(const ReviewLimits& limits, uint64_t seed) {
  const size_t words = limits.vocabulary == 0 ? kSyntheticWords : limits.vocabulary;
  if (words < 20) throw std::invalid_argument("synthetic reviews need 20 words or more");
  Reviews reviews;
  const auto bound = static_cast<uint32_t>(words);
  reviews.train = drawReviews(limits.trainReviews == 0 ? kSyntheticTrain : limits.trainReviews, bound, Random(seed, 5));
  reviews.test = drawReviews(limits.testReviews == 0 ? kSyntheticTest : limits.testReviews, bound, Random(seed, 6));
  reviews.vocabulary = words;
  reviews.source = "SYNTHETIC reviews, not IMDB (seed " + std::to_string(seed) + ")";
  reviews.synthetic = true;
  return reviews;
}

Reviews openReviews(const std::string& directory, const ReviewLimits& limits, uint64_t seed) {
  if (!directory.empty()) return readReviews(directory, limits);
  if (fs::is_directory(kDefaultDirectory)) return readReviews(kDefaultDirectory, limits);
  return makeSyntheticReviews(limits, seed);
}

void packReviews(const ReviewSet& set, const std::vector<uint32_t>& indices, size_t length, int64_t* out) {
  const size_t count = indices.size();
  for (size_t column = 0; column < count; ++column) {
    const size_t words = std::min(set.length(indices[column]), length);
    const int32_t* first = set.tokens.data() + set.ends[indices[column]] - words;
    for (size_t row = 0; row < length; ++row) out[row * count + column] = row < words ? first[row] : kPaddingWord;
  }
}

}  // namespace examples
