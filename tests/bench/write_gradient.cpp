// Writes COUNT entries with exponential tails to FILE, as a recorded gradient.
// usage: write_gradient FILE COUNT
#include <cstdio>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "examples/common/npy.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    std::vector<float> values(std::stoul(argv[2]));
    std::mt19937_64 random(11);
    std::exponential_distribution<double> magnitude(1000);
    for (float& value : values) value = static_cast<float>(random() % 2 == 0 ? magnitude(random) : -magnitude(random));
    examples::writeNpy(argv[1], values.data(), values.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_gradient: %s\n", error.what());
    return 1;
  }
  return 0;
}
