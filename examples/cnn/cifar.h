// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 and CIFAR-100 in their binary versions, and MNIST.
#pragma once

#include <filesystem>

#include "examples/cnn/images.h"

namespace examples {

struct ImageHalves {
  ImageSet train, test;
  size_t trainingFiles = 0;
};

/// data_batch_*.bin (any number, in order of their names) and test_batch.bin: a label byte and 3072 pixels a record.
/// Errors, here and below: std::runtime_error names the file and what is wrong with it.
ImageHalves readCifar10(const std::filesystem::path& directory);

/// train*.bin (any number) and test.bin: coarse label, fine label, 3072 pixels a record; the fine one of 100 is used.
ImageHalves readCifar100(const std::filesystem::path& directory);

/// The four idx files under their usual names, also packed (.gz): MNIST's, or a set like it such as Fashion-MNIST.
ImageHalves readMnist(const std::filesystem::path& directory);

/// Made-up images of CIFAR-10's shape that a network can learn: a coarse colour pattern for every class, moved a
/// little, under noise. Equal arguments give equal bytes on every platform.
ImageHalves makeSynthetic(size_t trainImages, size_t testImages, uint64_t seed);

}  // namespace examples
