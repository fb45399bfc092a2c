// SPDX-License-Identifier: Apache-2.0
// Free of LibTorch on purpose, which takes 15 s to compile.
#pragma once

#include <cstddef>
#include <memory>

#include "examples/common/program.h"
#include "examples/speech/speech_data.h"

namespace examples {

class Task;

struct SpeechOptions {
  size_t width = 64;
  size_t layers = 1;
  double dropout = 0;
  double clip = 1;   // the norm that a rank's gradient is cut to before the exchange; 0: never
  size_t beam = 16;  // prefixes that the decoder keeps
};

std::shared_ptr<Task> makeSpeechTask(const SpeechData& data, const SpeechOptions& options, const Settings& settings,
                                     const Replica& replica);

}  // namespace examples
