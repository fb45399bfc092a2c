// SPDX-License-Identifier: Apache-2.0
// From bytes to the floats that a network is trained on.
#pragma once

#include <memory>
#include <vector>

#include "examples/cnn/images.h"

namespace examples {

/// How a data set is normalised and changed at random.
struct Augmentation {
  std::vector<float> mean, deviation;  // per channel, of pixels from 0 to 1
  int padding = 0;                     // crops are taken from the image with so many zero pixels around it
  bool mirror = false;                 // half of the time
  int degrees = 0;                     // turned by up to so many, either way
};

extern const Augmentation kCifar10Augmentation, kCifar100Augmentation, kMnistAugmentation;

/// Takes over a set in memory.
std::unique_ptr<ImageSource> makeSource(ImageSet set, const Augmentation& augmentation);

}  // namespace examples
