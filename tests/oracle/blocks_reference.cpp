#include "tests/oracle/blocks_reference.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace sparsecoll::test {

namespace {

using Sparse = std::map<uint64_t, double>;

Sparse largestOf(const Sparse& x, uint64_t count, Sparse* rest = nullptr) {
  std::vector<std::pair<uint64_t, double>> entries(x.begin(), x.end());
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.second) > std::abs(b.second); });
  Sparse kept;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i < count)
      kept.insert(entries[i]);
    else if (rest != nullptr)
      rest->insert(entries[i]);
  }
  return kept;
}

Sparse sumOf(const std::vector<Sparse>& lists) {
  Sparse sum;
  for (const Sparse& list : lists)
    for (const auto& [i, x] : list) sum[i] += x;
  return sum;
}

}  // namespace

std::vector<uint64_t> largestIn(const Vector& x, uint64_t begin, uint64_t end, uint64_t count) {
  std::vector<uint64_t> order(end - begin);
  std::iota(order.begin(), order.end(), begin);
  std::stable_sort(order.begin(), order.end(), [&](uint64_t a, uint64_t b) { return std::abs(x[a]) > std::abs(x[b]); });
  order.resize(std::min<size_t>(order.size(), count));
  std::sort(order.begin(), order.end());
  return order;
}

uint64_t SparDLReference::blockBegin(uint64_t block) const {
  const uint64_t length = (n + positions() - 1) / positions();
  return std::min(n, block * length);
}

uint64_t SparDLReference::wanted(uint64_t block) const {
  const uint64_t length = blockBegin(block + 1) - blockBegin(block);
  if (length == 0) return 0;
  const double entries = std::floor(density * static_cast<double>(length) + 1e-9 * static_cast<double>(length));
  return std::clamp<uint64_t>(static_cast<uint64_t>(entries), 1, length);
}

// Specification A5, but that neither a share nor its step is larger than what is wanted of the block. By default a step
// of 0 becomes 1 towards the goal.
void SparDLReference::adapt(Share& share, double merged, double most) const {
  const bool right = (merged > most && share.step <= 0) || (merged <= most && share.step > 0);
  if (right) {
    if (share.confirmed) share.step *= 2;
    share.confirmed = !share.confirmed;
  } else {
    share.step = std::abs(share.step) > 1 ? std::trunc(-share.step / 2) : -share.step;
    share.confirmed = false;
  }
  share.step = std::clamp(share.step, -most, most);
  if (share.step == 0 && !freezes) share.step = merged > most ? -1 : 1;
  share.entries = std::clamp(share.entries + share.step, std::floor(most / static_cast<double>(teams)), most);
}

StepResult SparDLReference::step(const Vectors& acc) {
  const uint64_t q = positions();
  const auto rankAt = [q](uint64_t team, uint64_t position) { return team * q + position % q; };
  Vectors s = acc;
  Vectors d = acc;  // what is left at an index of the sum
  StepResult result;
  result.sum.assign(n, 0);
  shares.resize(q);

  // Spar-Reduce-Scatter
  uint64_t rounds = 0;
  while ((uint64_t{1} << rounds) < q) ++rounds;
  for (uint64_t i = 0; i < rounds; ++i) {
    const uint64_t gap = uint64_t{1} << (rounds - 1 - i);
    const uint64_t size = i == 0 ? q - gap : gap;
    struct Packet {
      uint64_t to;
      Sparse entries;
    };
    std::vector<Packet> packets;
    for (uint64_t rank = 0; rank < ranks; ++rank)
      for (uint64_t j = 0; j < size; ++j) {
        const uint64_t block = (rank % q + gap + j) % q;
        Packet packet{rankAt(rank / q, rank % q + gap), {}};
        for (uint64_t x = blockBegin(block); x < blockBegin(block + 1); ++x) d[rank][x] = s[rank][x];
        for (const uint64_t x : largestIn(s[rank], blockBegin(block), blockBegin(block + 1), wanted(block))) {
          packet.entries[x] = s[rank][x];
          d[rank][x] = 0;
        }
        packets.push_back(packet);
      }
    for (const Packet& packet : packets)
      for (const auto& [x, value] : packet.entries) s[packet.to][x] += value;
  }

  // The owners' blocks, and Spar-All-Gather between the teams
  std::vector<Sparse> own(ranks);
  for (uint64_t rank = 0; rank < ranks; ++rank) {
    const uint64_t block = rank % q;
    Share& share = shares[block];
    const auto most = static_cast<double>(wanted(block));
    if (!share.made) {
      share.entries = std::floor(most / static_cast<double>(teams));
      share.step = std::trunc((most - share.entries) / 100);
      share.made = true;
    }
    uint64_t count = wanted(block);
    if (teams > 1 && !recursive) count = std::min<uint64_t>(count, static_cast<uint64_t>(std::max(share.entries, 1.0)));
    for (uint64_t x = blockBegin(block); x < blockBegin(block + 1); ++x) d[rank][x] = s[rank][x];
    for (const uint64_t x : largestIn(s[rank], blockBegin(block), blockBegin(block + 1), count)) {
      own[rank][x] = s[rank][x];
      d[rank][x] = 0;
    }
  }
  if (recursive) {
    for (uint64_t gap = 1; gap < teams; gap *= 2) {
      const std::vector<Sparse> before = own;
      for (uint64_t rank = 0; rank < ranks; ++rank) {
        const uint64_t partner = rankAt((rank / q) ^ gap, rank % q);
        Sparse rest;
        own[rank] = largestOf(sumOf({before[rank], before[partner]}), wanted(rank % q), &rest);
        for (const auto& [x, value] : rest) d[rank][x] += value / static_cast<double>(2 * gap);
      }
    }
  } else if (teams > 1) {
    for (uint64_t position = 0; position < q; ++position) {
      std::vector<Sparse> lists;
      for (uint64_t team = 0; team < teams; ++team) lists.push_back(own[rankAt(team, position)]);
      const Sparse merged = sumOf(lists);
      for (uint64_t team = 0; team < teams; ++team) own[rankAt(team, position)] = largestOf(merged, wanted(position));
      adapt(shares[position], static_cast<double>(merged.size()), static_cast<double>(wanted(position)));
    }
  }

  // Global residual collection
  result.residuals = acc;
  for (uint64_t position = 0; position < q; ++position)
    for (const auto& [x, value] : own[position]) {
      result.sum[x] = value;
      for (uint64_t rank = 0; rank < ranks; ++rank) result.residuals[rank][x] = d[rank][x];
    }
  return result;
}

StepResult gTopKReference(const Vectors& acc, uint64_t k, bool forgets, uint64_t& lost) {
  const uint64_t ranks = acc.size();
  const uint64_t n = acc[0].size();
  std::vector<Sparse> own(ranks);
  for (uint64_t rank = 0; rank < ranks; ++rank)
    for (const uint64_t x : largestIn(acc[rank], 0, n, k)) own[rank][x] = acc[rank][x];
  std::vector<Sparse> held = own;
  std::vector<std::pair<uint64_t, Sparse>> drops;  // by whom
  for (uint64_t bit = 1; bit < ranks; bit *= 2)
    for (uint64_t rank = 0; rank + bit < ranks; rank += 2 * bit) {
      Sparse rest;
      held[rank] = largestOf(sumOf({held[rank], held[rank + bit]}), k, &rest);
      drops.emplace_back(rank, rest);
    }
  StepResult result;
  result.sum.assign(n, 0);
  result.residuals = acc;
  for (const auto& [x, value] : held[0]) {
    result.sum[x] = value;
    for (uint64_t rank = 0; rank < ranks; ++rank)
      if (own[rank].count(x) != 0) result.residuals[rank][x] = 0;
  }
  for (const auto& [rank, rest] : drops)
    for (const auto& [x, value] : rest)
      if (held[0].count(x) != 0) {
        ++lost;
        if (!forgets) result.residuals[rank][x] += value;
      }
  return result;
}

}  // namespace sparsecoll::test
