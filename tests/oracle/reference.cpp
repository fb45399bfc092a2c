#include "tests/oracle/reference.h"

#include <algorithm>
#include <numeric>

namespace sparsecoll::test {

Reference::Reference(const Method& method)
    : method_(method),
      acc_(method.ranks, std::vector<double>(method.n)),
      residual_(method.ranks, std::vector<double>(method.n)),
      velocity_(method.ranks, std::vector<double>(method.n)),
      input_(method.ranks, std::vector<double>(method.n)),
      sent_(method.ranks) {}

void Reference::step(const std::vector<Elements>& gradients, double threshold) {
  overflowed_.assign(method_.ranks, false);
  for (size_t r = 0; r < method_.ranks; ++r) {
    accumulate(r, gradients[r]);
    sent_[r] = selectFromRest(r, threshold);
  }
  touched_.assign(method_.n, false);
  for (const auto& list : sent_)
    for (const uint64_t i : list) touched_[i] = true;
  for (uint64_t i = 0; i < method_.n; ++i) touched_[i] = touched_[i] || method_.sendsDense(i);

  // What an index stands for: the values of those who sent it, or, where the union is summed, everyone's.
  sum_.assign(method_.n, 0);
  for (size_t r = 0; r < method_.ranks; ++r) {
    std::vector<bool> leaves = touched_;
    if (!method_.unites()) {
      leaves.assign(method_.n, false);
      for (const uint64_t i : sent_[r]) leaves[i] = true;
    }
    for (uint64_t i = 0; i < method_.n; ++i) {
      leaves[i] = leaves[i] || method_.sendsDense(i);
      if (leaves[i]) sum_[i] = round(sum_[i] + acc_[r][i]);
      residual_[r][i] = leaves[i] ? 0 : acc_[r][i];
      if (leaves[i] && method_.masks && !method_.sendsDense(i)) velocity_[r][i] = 0;
    }
  }
  ++iteration_;
}

void Reference::accumulate(size_t rank, const Elements& gradient) {
  const double scale = round(clippedScale(gradient));
  const double momentum = round(method_.momentum);
  for (uint64_t i = 0; i < method_.n; ++i) {
    const double g = gradient[i];
    const double before = method_.residual ? round(round(method_.decay) * residual_[rank][i]) : 0;
    double& velocity = velocity_[rank][i];
    if (method_.dense()) {
      acc_[rank][i] = round(g * scale);
    } else if (momentum == 0) {
      acc_[rank][i] = fma(scale, g, before);
      input_[rank][i] = scale * g;
    } else {
      velocity = fma(scale, g, round(momentum * velocity));
      input_[rank][i] = method_.nesterov ? fma(scale, g, round(momentum * velocity)) : velocity;
      acc_[rank][i] = round(before + input_[rank][i]);
    }
  }
}

double Reference::clippedScale(const Elements& gradient) const {
  if (method_.clipNorm == 0) return method_.inputScale;
  // The library's order: 32 lanes in tiles of 8192, a tree over the lanes, tiles one after the other.
  double squares = 0;
  for (uint64_t tile = 0; tile < method_.n; tile += 8192) {
    double lanes[32] = {};
    for (uint64_t i = tile; i < std::min(tile + 8192, method_.n); ++i)
      lanes[(i - tile) % 32] = std::fma(gradient[i], gradient[i], lanes[(i - tile) % 32]);
    for (int half = 16; half != 0; half /= 2)
      for (int lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    squares += lanes[0];
  }
  const double most = method_.clipNorm / std::sqrt(static_cast<double>(method_.ranks));
  const double norm = std::sqrt(squares) * std::abs(method_.inputScale);
  return method_.inputScale * (std::isfinite(norm) && norm > most ? most / norm : 1);
}

double Reference::fma(double a, double b, double c) const {
  if (method_.type == sparsecollFloat64) return std::fma(a, b, c);
  return static_cast<double>(std::fmaf(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c)));
}

double Reference::finished(uint64_t i) const {
  auto ranks = static_cast<double>(method_.ranks);
  if (method_.overContributors && method_.collective == sparsecollCollAllGather)
    ranks = static_cast<double>(std::count_if(sent_.begin(), sent_.end(), [i](const std::vector<uint64_t>& list) {
      return std::binary_search(list.begin(), list.end(), i);
    }));
  const double mean = method_.average ? round(sum_[i] / ranks) : sum_[i];
  return round(mean * round(method_.outputScale));
}

// Where tensors are sent dense the selection sees zeros.
std::vector<uint64_t> Reference::selectFromRest(size_t rank, double threshold) {
  const std::vector<double> whole = acc_[rank];
  for (uint64_t i = 0; i < method_.n; ++i)
    if (method_.sendsDense(i)) acc_[rank][i] = 0;
  std::vector<uint64_t> selected = select(rank, threshold);
  acc_[rank] = whole;
  return selected;
}

std::vector<uint64_t> Reference::select(size_t rank, double threshold) {
  const uint64_t n = method_.n;
  if (method_.dense()) {
    std::vector<uint64_t> everything(n);
    std::iota(everything.begin(), everything.end(), uint64_t{0});
    return everything;
  }
  if (method_.k == 0) return {};
  if (method_.selector == sparsecollSelectTopK) return largest(rank, 0, n, method_.k, 0);
  if (method_.selector == sparsecollSelectThreshold) return largest(rank, 0, n, method_.capacity, threshold);
  return selectMicro(rank, threshold);
}

std::vector<uint64_t> Reference::selectMicro(size_t rank, double threshold) {
  const uint64_t ranks = method_.ranks;
  const uint64_t part = (iteration_ + rank) % ranks;
  const uint64_t begin = part * (method_.n / ranks) + std::min(part, method_.n % ranks);
  const uint64_t end = begin + method_.n / ranks + (part < method_.n % ranks ? 1 : 0);
  if (method_.faithful) {
    std::vector<uint64_t> found = largest(rank, begin, end, method_.capacity, threshold);
    if (found.empty() && end > begin) found.push_back(begin + iteration_ % (end - begin));
    return found;
  }
  if (threshold > 0) return largest(rank, begin, end, method_.capacity, threshold);
  const uint64_t place = method_.k < std::min<uint64_t>(ranks, method_.n) ? rank : part;
  const uint64_t share = std::min(method_.k / ranks + (place < method_.k % ranks ? 1 : 0), method_.capacity);
  return largest(rank, begin, end, share, 0);
}

std::vector<uint64_t> Reference::largest(size_t rank, uint64_t begin, uint64_t end, uint64_t count, double least) {
  const std::vector<double>& acc = acc_[rank];
  std::vector<uint64_t> found;
  for (uint64_t i = begin; i < end; ++i)
    if (std::abs(acc[i]) >= least) found.push_back(i);
  if (found.size() <= count) return found;
  overflowed_[rank] = least > 0;
  const auto last = found.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(found.begin(), last, found.end(), [&](uint64_t a, uint64_t b) {
    const double x = std::abs(acc[a]);
    const double y = std::abs(acc[b]);
    return x != y ? x > y : a < b;
  });
  found.erase(last, found.end());
  std::sort(found.begin(), found.end());
  return found;
}

uint64_t Reference::bytesSent(size_t rank) const {
  const uint64_t header = 32;
  const uint64_t value = bytesOf(accumulateType(method_.type));
  const uint64_t peers = method_.ranks - 1;
  const uint64_t own = sent_[rank].size();
  uint64_t bytes = method_.survey != 0 ? peers * (header + 8 * method_.survey) : 0;
  // Of what is sent dense every rank owns a part: it gets that of all others, and all others get the part's sum.
  const auto dense = static_cast<uint64_t>(std::count(method_.sentDense.begin(), method_.sentDense.end(), true));
  const uint64_t longest = ((dense + peers) / method_.ranks + 63) / 64 * 64;
  const uint64_t part = std::min(longest, dense - std::min(dense, longest * rank));
  bytes += value * (dense - part + part * peers);
  if (method_.collective == sparsecollCollAllGather)
    return bytes + peers * (header + (4 * own + 15) / 16 * 16 + value * own);
  bytes += peers * (header + 4 * own) + peers * (header + value * own);
  for (size_t w = 0; w < method_.ranks; ++w)
    if (w != rank) bytes += header + value * sent_[w].size();
  return bytes;
}

}  // namespace sparsecoll::test
