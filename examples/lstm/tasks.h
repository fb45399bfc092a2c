// SPDX-License-Identifier: Apache-2.0
// The two tasks of the recurrent trainers. Free of LibTorch on purpose, which takes 15 s to compile.
#pragma once

#include <cstddef>
#include <memory>

#include "examples/common/program.h"
#include "examples/lstm/corpus.h"
#include "examples/lstm/reviews.h"

namespace examples {

class Task;

struct RecurrentOptions {
  size_t width;
  size_t layers;
  double dropout;
  size_t steps;         // words that backpropagation goes back; of a review: the last so many
  double clip;          // the norm that a rank's gradient is cut to before the exchange; 0: never
  bool onTest = false;  // judge on the test text instead of the validation text
};

std::shared_ptr<Task> makeLanguageTask(const Corpus& corpus, const RecurrentOptions& options, const Settings& settings,
                                       const Replica& replica);

std::shared_ptr<Task> makeSentimentTask(const Reviews& reviews, const RecurrentOptions& options,
                                        const Settings& settings, const Replica& replica);

}  // namespace examples
