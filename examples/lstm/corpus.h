// SPDX-License-Identifier: Apache-2.0
// Text for a language model: WikiText-2 (Merity et al. 2016), Penn Treebank (Marcus et al. 1993, as prepared by
// Mikolov) or any text whose words are separated by white space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace examples {

struct CorpusLimits {
  size_t vocabulary = 0;  // words, the rarer ones become "<unk>"; 0: all
  size_t trainTokens = 0;
  size_t testTokens = 0;  // of the validation text and of the test text
};

struct Corpus {
  std::vector<int32_t> train, valid, test;  // ids of words, every line followed by that of "<eos>"
  size_t vocabulary = 0;
  std::string source;  // for people: where it comes from
  bool synthetic = false;
};

/// Reads train.txt, valid.txt and test.txt, or the same as wiki.*.tokens or ptb.*.txt. The vocabulary comes from the
/// training text; other words become "<unk>". Errors: std::runtime_error names the file, the line and what is wrong.
Corpus readCorpus(const std::filesystem::path& directory, const CorpusLimits& limits);

/// A made-up text from a Markov chain: after each word one of four follows most of the time, so that a model can get
/// far below the perplexity of guessing. Equal arguments give equal words on every platform.
Corpus makeSyntheticCorpus(size_t vocabulary, const CorpusLimits& limits, uint64_t seed);

/// directory, if given; else ../shared/data/wikitext-2 if it exists; else a synthetic text made from the seed.
Corpus openCorpus(const std::string& directory, const CorpusLimits& limits, uint64_t seed);

/// A text laid out in columns of equal length that are read side by side, steps words at a time; a row that does not
/// fill a step is left out. Rank r of P reads its own columns: neighbours in the text (contiguous, so that every rank
/// has a part of the text for itself), or every P-th.
class TextColumns {
 public:
  TextColumns(const std::vector<int32_t>& tokens, size_t columns, size_t bptt);

  size_t steps() const { return steps_; }

  /// Words of one step and what follows each: bptt rows of one entry for each of the given columns.
  void read(size_t step, const std::vector<size_t>& columns, int64_t* inputs, int64_t* targets) const;

 private:
  const std::vector<int32_t>& tokens_;
  size_t bptt_;
  size_t height_;  // words of a column
  size_t steps_;
};

/// The columns of one rank, batchSize of them.
std::vector<size_t> columnsOf(size_t rank, size_t ranks, size_t batchSize, bool contiguous);

}  // namespace examples
