// SPDX-License-Identifier: Apache-2.0
// A folder of JPEG files, laid out like ImageNet's: train/CLASS/*.jpg and val/CLASS/*.jpg.
#pragma once

#include "examples/cnn/images.h"

namespace examples {

/// Classes are the folders of train in order of their names. Files are decoded when they are asked for: in training a
/// random part of 8 to 100 % of the area, scaled to side x side, mirrored half of the time (Szegedy et al. 2015); in
/// tests the middle, after the shorter side was scaled to side * 8 / 7.
/// Errors: std::runtime_error (also: built without libjpeg-turbo); a damaged file when it is asked for.
ImageData openJpegFolder(const ImageRequest& request);

}  // namespace examples
