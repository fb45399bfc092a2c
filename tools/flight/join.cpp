#include "tools/flight/join.h"

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "tools/flight/words.h"

namespace flight {

namespace {

// What ranks in one operation have in common. k may differ: of vectors and of shards it is each rank's own.
using Meaning = std::tuple<std::string, std::string, std::string, std::string, uint64_t, uint64_t, std::string>;
Meaning meaningOf(const Entry& entry) {
  return {entry.call, entry.preset, entry.selector, entry.collective, entry.tag, entry.n, entry.plan};
}

template <class Key>
using RanksBy = std::map<Key, std::vector<int>>;

constexpr int64_t kNoticeableNs = 1000000000;

// Whom an operation that has not ended well misses. Engines that do not tell may still name who failed.
std::vector<int> whomFor(const Entry& entry) {
  if (!entry.waitsFor.empty() || !entry.peer) return entry.waitsFor;
  return {*entry.peer};
}

// Who waits, in which operation and for whom; and who does not, although others wait for it.
class Waits {
 public:
  explicit Waits(const Group& group) : group_(group) {
    for (const auto& [rank, recording] : group.of) {
      const Entry* const latest = recording.latest();
      if (latest != nullptr && waits(recording, *latest)) waiting_.emplace(rank, latest);
      if (latest != nullptr && (first_ == nullptr || *latest->sequence > *first_->sequence)) first_ = latest;
    }
    for (int rank = 0; rank < group.ranks; ++rank) {
      if (waiting_.count(rank) != 0) continue;
      const Entry* const missed = missedBy(rank);
      if (missed != nullptr) missed_.emplace(rank, missed);
    }
  }

  bool any() const { return !waiting_.empty(); }
  const Entry* latest() const { return first_; }  // operation of all that have begun
  // By rank: the first operation in which others wait for it.
  const std::map<int, const Entry*>& missed() const { return missed_; }

  // "ranks 0-2 waited for rank 3 in round 2 of operation 118, for 29.9 s until timeout", one after the other, the
  // longest first.
  std::string text() const {
    struct Wait {
      std::vector<int> ranks;
      int64_t longestNs = 0;
    };
    using How = std::tuple<uint64_t, std::vector<int>, uint64_t, std::string>;
    std::map<How, Wait> waits;
    for (const auto& [rank, entry] : waiting_) {
      Wait& wait = waits[{*entry->sequence, whomFor(*entry), entry->rounds, entry->result.value_or("")}];
      wait.ranks.push_back(rank);
      const int64_t until = entry->endNs.value_or(group_.of.at(rank).writtenNs);
      wait.longestNs = std::max(wait.longestNs, until - entry->roundNs.value_or(entry->startNs));
    }
    std::vector<std::pair<How, Wait>> ordered(waits.begin(), waits.end());
    std::ranges::stable_sort(ordered, std::greater(), [](const auto& one) { return one.second.longestNs; });
    std::string text;
    for (const auto& [how, wait] : ordered) {
      const auto& [sequence, whom, round, result] = how;
      const char* const verb = !result.empty() ? " waited" : wait.ranks.size() == 1 ? " waits" : " wait";
      text += (text.empty() ? "" : "; ") + ranksText(wait.ranks) + verb;
      if (!whom.empty()) text += " for " + ranksText(whom);
      text += round == 0 ? " before the first round" : " in round " + std::to_string(round);
      text += " of operation " + std::to_string(sequence) + (result.empty() ? ", since " : ", for ");
      text += durationText(wait.longestNs) + (result.empty() ? "" : " until " + result);
    }
    return text;
  }

  // Ranks that came to the operation that all wait in so late that it explains half of the longest wait; and how late,
  // by the hosts' clocks.
  std::pair<std::vector<int>, int64_t> late() const {
    if (waiting_.size() != group_.of.size()) return {};
    int64_t first = INT64_MAX, last = INT64_MIN, longest = 0;
    for (const auto& [rank, entry] : waiting_) {
      first = std::min(first, entry->startNs);
      last = std::max(last, entry->startNs);
      longest = std::max(longest, entry->endNs.value_or(group_.of.at(rank).writtenNs) - entry->startNs);
    }
    const int64_t least = std::max(kNoticeableNs, longest / 2);
    std::pair<std::vector<int>, int64_t> found({}, last - first);
    for (const auto& [rank, entry] : waiting_)
      if (entry->startNs - first >= least) found.first.push_back(rank);
    return found;
  }

  // Ranks that wait in an earlier operation or round than the others; empty: all wait in one place.
  std::vector<int> slowest() const {
    const auto placeOf = [](const Entry& entry) { return std::pair(*entry.sequence, entry.rounds); };
    std::map<std::pair<uint64_t, uint64_t>, std::vector<int>> places;
    for (const auto& [rank, entry] : waiting_) places[placeOf(*entry)].push_back(rank);
    return places.size() > 1 ? places.begin()->second : std::vector<int>();
  }

 private:
  // Whether it waits for long, or did until the end. What ends with another code has met all ranks that it needs.
  static bool waits(const Recording& recording, const Entry& entry) {
    if (entry.underWay()) return recording.writtenNs - entry.roundNs.value_or(entry.startNs) >= kNoticeableNs;
    return entry.result == "timeout" || entry.result == "peer failed" || entry.result == "aborted";
  }
  // nullptr: nobody waits for the rank.
  const Entry* missedBy(int rank) const {
    const auto own = group_.of.find(rank);
    const Entry* const last = own != group_.of.end() ? own->second.latest() : nullptr;
    const Entry* missed = nullptr;
    for (const auto& [other, entry] : waiting_) {
      const std::vector<int> whom = whomFor(*entry);
      const bool named = std::find(whom.begin(), whom.end(), rank) != whom.end();
      // A rank that has left a file and has not begun the operation is missing, whatever the engine tells.
      const bool absent = own != group_.of.end() && (last == nullptr || *last->sequence < *entry->sequence);
      const bool earlier = missed == nullptr || *entry->sequence < *missed->sequence;
      if ((named || absent) && earlier) missed = entry;
    }
    return missed;
  }

  const Group& group_;
  std::map<int, const Entry*> waiting_, missed_;
  const Entry* first_ = nullptr;
};

// Where a rank is that has not come to an operation.
std::string whereIs(const Recording& recording) {
  const Entry* const latest = recording.latest();
  if (latest == nullptr) return "it has begun none";
  const std::string which = "operation " + std::to_string(*latest->sequence) + ", " + operationText(*latest);
  if (latest->underWay()) return "it is still in " + which;
  const std::string ago = durationText(recording.writtenNs - *latest->endNs);
  return "its last was " + which + ", which ended with " + *latest->result + " " + ago + " before its file was written";
}

void addMismatch(const Group& group, std::vector<Finding>& findings) {
  std::set<uint64_t> sequences;
  for (const auto& [rank, recording] : group.of)
    for (const Entry& entry : recording.entries)
      if (entry.sequence) sequences.insert(*entry.sequence);
  for (const uint64_t sequence : sequences) {
    RanksBy<Meaning> meanings;
    for (const auto& [rank, recording] : group.of)
      if (const Entry* const entry = recording.find(sequence)) meanings[meaningOf(*entry)].push_back(rank);
    if (meanings.size() < 2) continue;
    std::vector<std::vector<int>> parts;
    for (const auto& [meaning, ranks] : meanings) parts.push_back(ranks);
    // Who is alone is named first.
    std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
    Finding finding{Finding::Kind::kMismatch, parts.front(), sequence, {}};
    finding.text = "operation " + std::to_string(sequence) + ": ";
    std::set<std::string> texts;
    for (const std::vector<int>& ranks : parts) {
      const std::string what = operationText(*group.of.at(ranks.front()).find(sequence));
      finding.text += (texts.empty() ? "" : ", ") + ranksText(ranks) + " called " + what;
      if (!texts.insert(what).second) finding.text += " with other parameters";
    }
    findings.push_back(finding);
    return;  // what comes later follows from it
  }
}

void addLag(const Group& group, std::vector<Finding>& findings) {
  const Waits waits(group);
  if (!waits.any()) return;
  const auto nameOf = [](const Entry& entry) {
    return "operation " + std::to_string(*entry.sequence) + ", " + operationText(entry);
  };
  Finding finding;
  finding.sequence = *waits.latest()->sequence;
  if (!waits.missed().empty()) {
    RanksBy<uint64_t> silent;  // by the operation that they hold up
    for (const auto& [rank, entry] : waits.missed()) {
      finding.ranks.push_back(rank);
      finding.sequence = std::min(*finding.sequence, *entry->sequence);
      const auto own = group.of.find(rank);
      if (own == group.of.end()) {
        silent[*entry->sequence].push_back(rank);
        continue;
      }
      finding.text += "rank " + std::to_string(rank);
      finding.text +=
          own->second.find(*entry->sequence) == nullptr ? " never began " : " has ended, and others miss it in, ";
      finding.text += nameOf(*entry) + ": " + whereIs(own->second) + "; ";
    }
    for (const auto& [sequence, ranks] : silent)
      finding.text += ranksText(ranks) + (ranks.size() == 1 ? " holds up " : " hold up ") +
                      nameOf(*waits.missed().at(ranks.front())) + ": ";
  } else if (const std::vector<int> slow = waits.slowest(); !slow.empty()) {
    finding.ranks = slow;
    const Entry& entry = *group.of.at(slow.front()).latest();
    finding.sequence = *entry.sequence;
    finding.text = ranksText(slow) + (slow.size() == 1 ? " is" : " are") + " behind, in " + nameOf(entry) + ": ";
  } else if (const auto [ranks, lateNs] = waits.late(); !ranks.empty()) {
    finding.ranks = ranks;
    finding.text =
        ranksText(ranks) + " came to " + nameOf(*waits.latest()) + ", " + durationText(lateNs) + " after the first: ";
  } else {
    finding.kind = Finding::Kind::kWait;
    finding.ranks = group.here();
    finding.text = "in " + nameOf(*waits.latest()) + ": ";
  }
  finding.text += waits.text();
  findings.push_back(finding);
}

void addMissing(const Group& group, std::vector<Finding>& findings) {
  const std::vector<int> missing = group.missing();
  if (missing.empty()) return;
  findings.push_back({Finding::Kind::kMissing,
                      missing,
                      {},
                      ranksText(missing) + " left no file: stopped, killed, or its folder is another one"});
}

void addFailures(const Group& group, std::vector<Finding>& findings) {
  struct Told {
    std::vector<int> ranks;
    Failure failure;
  };
  std::map<std::tuple<uint64_t, std::string, std::string>, Told> failures;
  for (const auto& [rank, recording] : group.of) {
    if (!recording.failure) continue;
    const Failure& failure = *recording.failure;
    Told& told = failures[{failure.sequence, failure.result, failure.text}];
    told.ranks.push_back(rank);
    told.failure = failure;
  }
  for (const auto& [key, told] : failures) {
    Finding finding{Finding::Kind::kFailure, told.ranks, {}, ranksText(told.ranks) + ": " + told.failure.result};
    if (told.failure.sequence != 0) {
      finding.sequence = told.failure.sequence;
      finding.text += " in operation " + std::to_string(told.failure.sequence);
    }
    finding.text += ": " + told.failure.text;
    findings.push_back(finding);
  }
}

// Calls outside of operations, which have no number to be compared by.
void addOtherWaits(const Group& group, std::vector<Finding>& findings) {
  RanksBy<std::string> waits;
  for (const auto& [rank, recording] : group.of)
    if (!recording.entries.empty())
      if (const Entry& last = recording.entries.back(); !last.sequence && last.underWay())
        waits["in " + last.call + " since " + durationText(recording.writtenNs - last.startNs)].push_back(rank);
  for (const auto& [text, ranks] : waits)
    findings.push_back(
        {Finding::Kind::kWait, ranks, {}, ranksText(ranks) + (ranks.size() == 1 ? " is " : " are ") + text});
}

}  // namespace

std::vector<int> Group::here() const {
  std::vector<int> all;
  for (const auto& [rank, recording] : of) all.push_back(rank);
  return all;
}

std::vector<int> Group::missing() const {
  std::vector<int> all;
  for (int rank = 0; rank < ranks; ++rank)
    if (of.count(rank) == 0) all.push_back(rank);
  return all;
}

int64_t Group::writtenNs() const {
  int64_t latest = 0;
  for (const auto& [rank, recording] : of) latest = std::max(latest, recording.writtenNs);
  return latest;
}

const char* nameOf(Finding::Kind kind) {
  constexpr const char* kNames[] = {"lag", "mismatch", "failure", "missing", "wait"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<Group> groupsOf(std::vector<Recording> recordings, std::vector<std::string>& notes) {
  std::map<std::pair<std::string, int>, Group> groups;  // ranks that count differently do not belong together
  for (Recording& recording : recordings) {
    Group& group = groups[{recording.communicator, recording.ranks}];
    group.communicator = recording.communicator;
    group.name = recording.name;
    group.transport = recording.transport;
    group.ranks = recording.ranks;
    const auto known = group.of.find(recording.rank);
    if (known == group.of.end()) {
      group.of.emplace(recording.rank, std::move(recording));
      continue;
    }
    const bool later = recording.writtenNs > known->second.writtenNs;
    notes.push_back((later ? known->second.path : recording.path) + ": left out, rank " +
                    std::to_string(recording.rank) + " has a later file");
    if (later) known->second = std::move(recording);
  }
  std::vector<Group> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  std::ranges::sort(all, {}, &Group::writtenNs);
  return all;
}

std::vector<Finding> findingsOf(const Group& group) {
  std::vector<Finding> findings;
  addMismatch(group, findings);
  addLag(group, findings);
  addMissing(group, findings);
  addOtherWaits(group, findings);
  addFailures(group, findings);
  return findings;
}

}  // namespace flight
