#include "transports/tcp/connection.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/bytes.h"
#include "core/poll.h"

namespace sparsecoll::tcp {

namespace {

constexpr uint64_t kMostGranted = uint64_t{1} << 32;  // to one tag
constexpr int kMostReads = 16;                        // at once, so that all connections have their turn
constexpr int kMostMessages = 8;                      // in one write
// The last lets the end of what is written leave at once. Else Linux keeps a short rest back until what was written
// before has left the queue (autocorking), and then it stands behind what goes to others: at 100 Mbit/s up to 50 ms.
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_EOR;
constexpr uint64_t kPromised = 2;  // envelopes that a peer may send without a further grant

enum class Moved { kSome, kNothingNow, kClosed };

bool tryAgain(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

Moved outcomeOf(ssize_t moved) {
  if (moved > 0) return Moved::kSome;
  return moved < 0 && tryAgain(errno) ? Moved::kNothingNow : Moved::kClosed;
}

// Calls until no signal has come in between.
template <class Call>
ssize_t untilUndisturbed(Call call) {
  ssize_t result = 0;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

uint64_t bytesIn(const Queue& queue) {
  uint64_t bytes = 0;
  for (const Request* one = queue.first(); one != nullptr; one = one->next) bytes += one->left();
  return bytes;
}

}  // namespace

HeadBytes writeHead(const Head& head) {
  HeadBytes bytes{};
  const auto put = [&](size_t at, const auto& value) { std::memcpy(bytes.data() + at, &value, sizeof value); };
  put(0, head.kind);
  put(2, head.tag);
  put(8, head.amount);
  return bytes;
}

Result<Head> readHead(std::span<const std::byte, kHeadBytes> bytes) {
  Reader reader(bytes);
  Head head;
  SC_TRY(const auto kind, reader.read<uint16_t>());
  SC_TRY(head.tag, reader.read<uint16_t>());
  SC_TRY(const auto zero, reader.read<uint32_t>());
  SC_TRY(head.amount, reader.read<uint64_t>());
  head.kind = static_cast<HeadKind>(kind);
  const bool known = head.kind == HeadKind::kMessage || head.kind == HeadKind::kGrants;
  if (!known || zero != 0 || head.tag >= SPARSECOLL_ENGINE_TAGS)
    return fail(sparsecollCorrupted, "no head of a message");
  return head;
}

void Queue::push(Request& request) {
  request.next = nullptr;
  (first_ == nullptr ? first_ : last_->next) = &request;
  last_ = &request;
}

Request& Queue::pop() {
  Request& request = *first_;
  first_ = request.next;
  return request;
}

bool Queue::remove(Request& request) {
  Request* before = nullptr;
  for (Request* one = first_; one != nullptr; before = one, one = one->next) {
    if (one != &request) continue;
    (before == nullptr ? first_ : before->next) = one->next;
    if (last_ == one) last_ = before;
    return true;
  }
  return false;
}

void Connection::finish(Request& request, Request::State state) {
  request.state = state;
  ++tally_.ended;
}

void Connection::post(Request& request) {
  Lane& lane = lanes_[request.tag];
  if (request.receives) {
    lane.receives.push(request);
    if (!isFrame(request.tag)) {
      ++lane.toGrant;
      checkGrants(request.tag);
    } else if (stalled_ && !takeStaged()) {
      end();
    }
    return;
  }
  request.head = writeHead({HeadKind::kMessage, request.tag, request.bytes});
  request.ticket = ++tickets_;
  if (lane.granted == 0) {
    lane.waiting.push(request);
    return letFramesLeave();
  }
  --lane.granted;
  out_.push(request);
}

void Connection::cancel(Request& request) {
  if (request.ended()) return;
  request.cancelled = true;
  Lane& lane = lanes_[request.tag];
  if (request.receives) {
    deaf_ = true;
    if (landing_ == &request) {
      landing_ = nullptr;
      --tally_.halfway;
    } else {
      (void)lane.receives.remove(request);
    }
    return finish(request, Request::State::kDone);
  }
  if (request.headMoved != 0) return end();
  if (!out_.remove(request))
    (void)lane.waiting.remove(request);
  else if (!isFrame(request.tag))
    ++lane.granted;
  letFramesLeave();
  finish(request, Request::State::kDone);
}

void Connection::letFramesLeave() {
  Queue& frames = lanes_[engine::kFrames].waiting;
  const auto isBefore = [&](const Lane& lane) {
    return !lane.waiting.empty() && lane.waiting.first()->ticket < frames.first()->ticket;
  };
  while (!frames.empty() && std::ranges::none_of(lanes_, isBefore)) out_.push(frames.pop());
}

bool Connection::read() {
  bool moved = false;
  for (int turn = 0; turn < kMostReads && open() && !deaf_ && !stalled_; ++turn) {
    // The rest of the message goes where it belongs, what comes behind it is looked at first.
    std::array<iovec, 2> pieces;
    int count = 0;
    const uint64_t rest = landing_ != nullptr ? landing_->left() : 0;
    if (rest != 0) pieces[static_cast<size_t>(count++)] = {landing_->data + landing_->moved, rest};
    pieces[static_cast<size_t>(count++)] = {staging_.data() + staged_, staging_.size() - staged_};
    const uint64_t room = rest + staging_.size() - staged_;
    const ssize_t got = untilUndisturbed([&] { return readv(fd(), pieces.data(), count); });
    const Moved outcome = outcomeOf(got);
    if (outcome == Moved::kClosed) end();
    if (outcome != Moved::kSome) break;
    moved = true;
    const uint64_t direct = std::min(rest, static_cast<uint64_t>(got));
    staged_ += static_cast<size_t>(got) - direct;
    if (landing_ != nullptr) {
      landing_->moved += direct;
      landed();
    }
    if (!takeStaged()) end();
    if (static_cast<uint64_t>(got) < room) break;
  }
  return moved;
}

// Of the message that is coming: it may be whole.
void Connection::landed() {
  if (landing_->left() != 0) return;
  Request& request = *landing_;
  landing_ = nullptr;
  --tally_.halfway;
  finish(request, Request::State::kDone);
}

// False: the peer says what it must not.
bool Connection::takeStaged() {
  size_t at = 0;
  stalled_ = false;
  for (;;) {
    if (landing_ != nullptr) {
      const size_t piece = std::min<size_t>(landing_->left(), staged_ - at);
      std::memcpy(landing_->data + landing_->moved, staging_.data() + at, piece);
      landing_->moved += piece;
      at += piece;
      landed();
      if (landing_ != nullptr) break;
    }
    if (staged_ - at < kHeadBytes) break;
    auto head = readHead(std::span<const std::byte, kHeadBytes>(staging_.data() + at, kHeadBytes));
    if (!head.ok()) return false;
    stalled_ = head->kind == HeadKind::kMessage && isFrame(head->tag) && lanes_[head->tag].receives.empty();
    if (stalled_) break;
    if (!begin(*head).ok()) return false;
    at += kHeadBytes;
  }
  staged_ -= at;
  std::memmove(staging_.data(), staging_.data() + at, staged_);
  return true;
}

Status Connection::begin(const Head& head) {
  Lane& lane = lanes_[head.tag];
  if (head.kind == HeadKind::kGrants) {
    if (isFrame(head.tag)) return fail(sparsecollCorrupted, "grants of frames");
    if (head.amount > kMostGranted - lane.granted) return fail(sparsecollCorrupted, "too many grants");
    lane.granted += head.amount;
    for (; lane.granted != 0 && !lane.waiting.empty(); --lane.granted) {
      out_.push(lane.waiting.pop());
      letFramesLeave();
    }
    return {};
  }
  if (lane.receives.empty() || (!isFrame(head.tag) && lane.promised == 0))
    return fail(sparsecollCorrupted, "a message without a grant");
  if (head.amount > lane.receives.first()->bytes) return fail(sparsecollCorrupted, "a message longer than its place");
  landing_ = &lane.receives.pop();
  landing_->bytes = head.amount;
  if (!isFrame(head.tag)) --lane.promised;
  checkGrants(head.tag);
  ++tally_.halfway;
  return {};
}

void Connection::checkGrants(uint16_t tag) {
  const Lane& lane = lanes_[tag];
  const bool mayWait = tag == engine::kEnvelopes && lane.promised >= kPromised;
  if (lane.toGrant != 0 && !mayWait) grantsAreDue_ = true;
}

void Connection::writeGrants() {
  if (grantsEnd_ != 0) return;
  for (size_t tag = 0; tag < kTags; ++tag) {
    uint64_t& posted = lanes_[tag].toGrant;
    if (posted == 0) continue;
    const HeadBytes head = writeHead({HeadKind::kGrants, static_cast<uint16_t>(tag), posted});
    std::ranges::copy(head, grants_.begin() + static_cast<ptrdiff_t>(grantsEnd_));
    grantsEnd_ += kHeadBytes;
    lanes_[tag].promised += std::exchange(posted, 0);
  }
  grantsAreDue_ = false;
}

bool Connection::write() {
  bool moved = false;
  while (hasOutput()) {
    writeGrants();
    std::array<iovec, 2 * kMostMessages + 1> pieces;
    size_t count = 0;
    uint64_t total = 0;
    const auto add = [&](std::byte* data, uint64_t bytes) {
      if (bytes != 0) pieces[count++] = {data, bytes};
      total += bytes;
    };
    const auto addGrants = [&] { add(grants_.data() + grantsBegin_, grantsEnd_ - grantsBegin_); };
    // Grants first, but not into the middle of a message.
    const bool halfway = !out_.empty() && out_.first()->headMoved != 0;
    if (!halfway) addGrants();
    int messages = 0;
    for (Request* one = out_.first(); one != nullptr && messages < kMostMessages; one = one->next, ++messages) {
      add(one->head.data() + one->headMoved, kHeadBytes - one->headMoved);
      add(one->data + one->moved, one->left());
      if (halfway && messages == 0) addGrants();
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const ssize_t sent = untilUndisturbed([&] { return sendmsg(fd(), &message, kSendFlags); });
    const Moved outcome = outcomeOf(sent);
    full_ = outcome == Moved::kNothingNow || (outcome == Moved::kSome && static_cast<uint64_t>(sent) < total);
    if (outcome == Moved::kClosed) goMute();
    if (outcome != Moved::kSome) break;
    moved = true;
    left(static_cast<size_t>(sent));
    if (leavesHost_) noteDrain(static_cast<size_t>(sent));
    if (full_) break;
  }
  return moved;
}

// So many bytes went into the socket. From when it was full until it is full again its link has taken as many.
void Connection::noteDrain(size_t bytes) {
  tally_.sent += bytes;
  if (!full_) return fullSince_.reset();
  const auto now = std::chrono::steady_clock::now();
  if (fullSince_) {
    const std::chrono::duration<double> time = now - *fullSince_;
    tally_.drains.add(static_cast<double>(bytes) / time.count(), bytes);
  }
  fullSince_ = now;
}

// So many bytes have left, in the order in which write put them.
void Connection::left(size_t bytes) {
  if (!out_.empty() && out_.first()->headMoved != 0) leftOf(*out_.first(), bytes);
  const size_t grants = std::min(bytes, grantsEnd_ - grantsBegin_);
  grantsBegin_ += grants;
  bytes -= grants;
  if (grantsBegin_ == grantsEnd_) grantsBegin_ = grantsEnd_ = 0;
  while (bytes != 0) leftOf(*out_.first(), bytes);
}

void Connection::leftOf(Request& request, size_t& bytes) {
  const size_t head = std::min(bytes, kHeadBytes - request.headMoved);
  request.headMoved += head;
  const uint64_t body = std::min<uint64_t>(bytes - head, request.left());
  request.moved += body;
  bytes -= head + body;
  if (request.headMoved != kHeadBytes || request.left() != 0) return;
  (void)out_.pop();
  finish(request, Request::State::kDone);
}

uint32_t Connection::interest() const {
  const uint32_t input = deaf_ ? EPOLLERR | EPOLLHUP : stalled_ ? 0u : uint32_t{EPOLLIN};
  return input | (full_ ? EPOLLOUT : 0u);
}

void Connection::failAll(Queue& queue) {
  while (!queue.empty()) finish(queue.pop(), Request::State::kFailed);
}

void Connection::goMute() {
  mute_ = true;
  full_ = false;
  (void)shutdown(fd(), SHUT_WR);
  failAll(out_);
  for (Lane& lane : lanes_) failAll(lane.waiting);
}

void Connection::end() {
  if (std::exchange(ended_, true)) return;
  (void)shutdown(fd(), SHUT_RDWR);
  if (landing_ != nullptr) {
    --tally_.halfway;
    finish(*std::exchange(landing_, nullptr), Request::State::kFailed);
  }
  failAll(out_);
  for (Lane& lane : lanes_) {
    failAll(lane.receives);
    failAll(lane.waiting);
  }
}

uint64_t Connection::unacknowledged() const {
  int bytes = 0;
  if (!open() || ioctl(fd(), SIOCOUTQ, &bytes) != 0) return 0;
  return static_cast<uint64_t>(std::max(bytes, 0));
}

uint64_t Connection::underWay() const {
  uint64_t bytes = unacknowledged() + bytesIn(out_);
  for (const Lane& lane : lanes_) bytes += bytesIn(lane.waiting);
  return bytes;
}

uint64_t Connection::undelivered() const {
  const uint64_t unsent = unacknowledged();
  if (unsent == 0) return 0;
  std::array<pollfd, 1> peer = {{{fd(), POLLRDHUP, 0}}};
  const bool closed = awaitAny(peer, Deadline::in(0));  // its end
  return closed ? 0 : unsent;
}

}  // namespace sparsecoll::tcp
