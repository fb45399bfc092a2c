// SPDX-License-Identifier: Apache-2.0
#include "examples/lstm/corpus.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "examples/common/lines.h"
#include "examples/common/random.h"
#include "examples/common/vocabulary.h"

namespace examples {

namespace fs = std::filesystem;

namespace {

constexpr const char* kDefaultDirectory = "../shared/data/wikitext-2";
constexpr const char* kEnd = "<eos>";
constexpr const char* kUnknown = "<unk>";
constexpr size_t kSyntheticWords = 500;
constexpr size_t kSyntheticTrain = 200000;
constexpr size_t kSyntheticTest = 20000;

fs::path findText(const fs::path& directory, const std::string& part) {
  const std::array<std::string, 3> names{part + ".txt", "wiki." + part + ".tokens", "ptb." + part + ".txt"};
  for (const auto& name : names) {
    if (fs::is_regular_file(directory / name)) return directory / name;
  }
  throw std::runtime_error(directory.string() + ": holds no " + names[0] + ", " + names[1] + " or " + names[2]);
}

template <class Take>
void forEachWord(std::string_view line, const Take& take) {
  constexpr std::string_view kSpace = " \t\v\f";
  for (size_t at = line.find_first_not_of(kSpace); at != line.npos;) {
    const size_t stop = std::min(line.find_first_of(kSpace, at), line.size());
    take(line.substr(at, stop - at));
    at = line.find_first_not_of(kSpace, stop);
  }
}

/// Calls take for each word of the file and the end of each line, until limit words (0: all).
template <class Take>
void readWords(const fs::path& path, size_t limit, const Take& take) {
  LineReader reader(path);
  std::string_view line;
  size_t words = 0, lineEnds = 0;
  while ((limit == 0 || words + lineEnds < limit) && reader.next(line)) {
    forEachWord(line, [&](std::string_view word) {
      ++words;
      take(word);
    });
    ++lineEnds;
    take(kEnd);
  }
  if (words == 0) throw std::runtime_error(path.string() + ": holds no words");
}

void limitTo(std::vector<int32_t>& tokens, size_t limit) {
  if (limit != 0 && limit < tokens.size()) tokens.resize(limit);
}

std::vector<int32_t> readKnown(const fs::path& path, const Vocabulary& vocabulary, size_t limit) {
  std::vector<int32_t> tokens;
  readWords(path, limit, [&](std::string_view word) {
    const int32_t id = vocabulary.find(word);
    tokens.push_back(id >= 0 ? id : vocabulary.find(kUnknown));
  });
  limitTo(tokens, limit);
  return tokens;
}

// ---- the synthetic text ----

constexpr size_t kFollowers = 4;
constexpr uint32_t kSurprise = 8;  // one word in so many is any word

std::vector<int32_t> walk(const std::vector<int32_t>& followers, size_t vocabulary, size_t count, Random random) {
  std::vector<int32_t> tokens(count);
  size_t word = 0;
  for (auto& token : tokens) {
    const bool any = random.below(kSurprise) == 0;
    const uint32_t drawn = random.below(static_cast<uint32_t>(any ? vocabulary : kFollowers));
    word = any ? drawn : static_cast<size_t>(followers[word * kFollowers + drawn]);
    token = static_cast<int32_t>(word);
  }
  return tokens;
}

}  // namespace

Corpus readCorpus(const fs::path& directory, const CorpusLimits& limits) {
  if (!fs::is_directory(directory)) throw std::runtime_error(directory.string() + ": no such directory");
  Vocabulary vocabulary;
  Corpus corpus;
  readWords(findText(directory, "train"), 0,
            [&](std::string_view word) { corpus.train.push_back(vocabulary.count(word)); });
  const std::vector<int32_t> newId = vocabulary.freeze({kEnd, kUnknown}, limits.vocabulary);
  limitTo(corpus.train, limits.trainTokens);
  for (auto& token : corpus.train) {
    token = newId[static_cast<size_t>(token)];
    if (token < 0) token = vocabulary.find(kUnknown);
  }
  corpus.valid = readKnown(findText(directory, "valid"), vocabulary, limits.testTokens);
  corpus.test = readKnown(findText(directory, "test"), vocabulary, limits.testTokens);
  corpus.vocabulary = vocabulary.size();
  corpus.source = directory.string();
  return corpus;
}

Corpus makeSyntheticCorpus(size_t vocabulary, const CorpusLimits& limits, uint64_t seed) {
  if (vocabulary < 2) throw std::invalid_argument("a synthetic text needs 2 words or more");
  Random random(seed, 1);
  std::vector<int32_t> followers(vocabulary * kFollowers);
  for (auto& follower : followers) follower = static_cast<int32_t>(random.below(static_cast<uint32_t>(vocabulary)));
  Corpus corpus;
  const size_t testTokens = limits.testTokens == 0 ? kSyntheticTest : limits.testTokens;
  corpus.train =
      walk(followers, vocabulary, limits.trainTokens == 0 ? kSyntheticTrain : limits.trainTokens, Random(seed, 2));
  corpus.valid = walk(followers, vocabulary, testTokens, Random(seed, 3));
  corpus.test = walk(followers, vocabulary, testTokens, Random(seed, 4));
  corpus.vocabulary = vocabulary;
  corpus.source = "SYNTHETIC words, not a language (seed " + std::to_string(seed) + ")";
  corpus.synthetic = true;
  return corpus;
}

Corpus openCorpus(const std::string& directory, const CorpusLimits& limits, uint64_t seed) {
  if (!directory.empty()) return readCorpus(directory, limits);
  if (fs::is_directory(kDefaultDirectory)) return readCorpus(kDefaultDirectory, limits);
  return makeSyntheticCorpus(limits.vocabulary == 0 ? kSyntheticWords : limits.vocabulary, limits, seed);
}

// The last word of a column needs one behind it.
TextColumns::TextColumns(const std::vector<int32_t>& tokens, size_t columns, size_t bptt)
    : tokens_(tokens),
      bptt_(bptt),
      height_(tokens.empty() ? 0 : (tokens.size() - 1) / columns),
      steps_(height_ / bptt) {
  if (steps_ == 0) {
    throw std::runtime_error("a text of " + std::to_string(tokens.size()) + " words is too short for " +
                             std::to_string(columns) + " columns of " + std::to_string(bptt) + " words");
  }
}

void TextColumns::read(size_t step, const std::vector<size_t>& columns, int64_t* inputs, int64_t* targets) const {
  if (step >= steps_) throw std::logic_error("TextColumns: the text is over");
  for (size_t row = 0; row < bptt_; ++row) {
    for (const size_t column : columns) {
      const size_t at = column * height_ + step * bptt_ + row;
      *inputs++ = tokens_[at];
      *targets++ = tokens_[at + 1];
    }
  }
}

std::vector<size_t> columnsOf(size_t rank, size_t ranks, size_t batchSize, bool contiguous) {
  std::vector<size_t> columns(batchSize);
  for (size_t i = 0; i < batchSize; ++i) columns[i] = contiguous ? rank * batchSize + i : i * ranks + rank;
  return columns;
}

}  // namespace examples
