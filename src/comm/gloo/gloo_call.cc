// Gloo's own timeouts are not used: one that passes closes every connection of the process before
// anyone can tell which rank was at fault. Waits end by their message, by a broken connection, or
// by the watch, which stops them.
#include "comm/gloo/gloo_call.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace rl {
namespace {

constexpr std::chrono::milliseconds kForEver = std::chrono::hours(24 * 365);

}  // namespace

GlooCall::GlooCall(gloo::transport::Context& context, int rank, const Exchange& exchange)
    : rank_(rank),
      exchange_(exchange),
      header_slot_(2 * exchange.channel),
      slot_(2 * exchange.channel + 1),
      watched_{exchange.channel, exchange.what, exchange.deadline_ns, {}, [this] { stop(); }} {
  for (const Outgoing& each : exchange.out) {
    auto* const data = const_cast<std::byte*>(each.bytes.data());  // gloo only reads it
    out_.push_back(std::make_unique<Message>());
    *out_.back() = make_message(context, each.to, data, each.bytes.size());
  }
  for (const Incoming& each : exchange.in) {
    in_.push_back(std::make_unique<Message>());
    *in_.back() = make_message(context, each.from, each.bytes.data(), each.bytes.size());
  }
  for (const auto* side : {&out_, &in_}) {
    for (const auto& message : *side) {
      message->header_buffer = context.createUnboundBuffer(&message->header, sizeof(Header));
      std::vector<int>& partners = watched_.partners;
      if (std::find(partners.begin(), partners.end(), message->rank) == partners.end())
        partners.push_back(message->rank);
    }
  }
}

GlooCall::Message GlooCall::make_message(gloo::transport::Context& context, int rank, void* data,
                                         size_t size) const {
  Message out{rank, size, header_of(size), nullptr, nullptr};
  if (size > 0) out.buffer = context.createUnboundBuffer(data, size);
  return out;
}

GlooCall::Header GlooCall::header_of(size_t size) const {
  Header header{size, {}};
  RL_CHECK(exchange_.what.size() < sizeof header.what);
  std::memcpy(header.what, exchange_.what.data(), exchange_.what.size());
  return header;
}

void GlooCall::run() {
  for (const auto& message : out_) {
    partner_ = message->rank;
    message->header_buffer->send(message->rank, header_slot_);
    if (message->buffer) message->buffer->send(message->rank, slot_);
  }
  for (const auto& message : in_) {
    partner_ = message->rank;
    message->header_buffer->recv(message->rank, header_slot_);
  }
  for (const auto& message : in_) {
    wait_received(*message, message->header_buffer);
    require_agreement(*message);
    if (message->buffer) message->buffer->recv(message->rank, slot_);
  }
  for (const auto& message : in_) {
    if (message->buffer) wait_received(*message, message->buffer);
  }
  for (const auto& message : out_) {
    wait_sent(*message, message->header_buffer);
    if (message->buffer) wait_sent(*message, message->buffer);
  }
}

void GlooCall::require_agreement(const Message& message) const {
  const Header& header = message.header;
  const std::string_view what(header.what, strnlen(header.what, sizeof header.what));
  if (what == exchange_.what && header.bytes == message.size) return;
  throw GlooDisagreement{
      {message.rank,
       str("rank ", message.rank, " called ", what, " with ", header.bytes, " bytes for rank ",
           rank_, ", which called ", exchange_.what, " and expected ", message.size),
       Code::kIncompatible}};
}

void GlooCall::wait_received(const Message& message, const Buffer& buffer) {
  partner_ = message.rank;
  if (!buffer->waitRecv(nullptr, kForEver)) throw GlooStopped();
}

void GlooCall::wait_sent(const Message& message, const Buffer& buffer) {
  partner_ = message.rank;
  if (!buffer->waitSend(nullptr, kForEver)) throw GlooStopped();
}

void GlooCall::stop() {
  for (const auto* side : {&out_, &in_}) {
    for (const auto& message : *side) {
      for (const Buffer* buffer : {&message->header_buffer, &message->buffer}) {
        if (*buffer == nullptr) continue;
        (*buffer)->abortWaitRecv();
        (*buffer)->abortWaitSend();
      }
    }
  }
}

}  // namespace rl
