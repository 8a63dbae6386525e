#include "nsjail/listen.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/text.h"

namespace sbx::nsjail {
namespace {

std::string address_text(const sockaddr_in6& address, std::string* ip = nullptr) {
  char text[INET6_ADDRSTRLEN] = "?";
  (void)::inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text);
  if (ip != nullptr) *ip = text;
  return "[" + std::string(text) + "]:" + std::to_string(ntohs(address.sin6_port));
}

}  // namespace

Result<Listener> listen_on(const std::string& host, uint32_t port) {
  if (port > 65535) return Error(ErrorKind::usage, "the port " + std::to_string(port) + " is above 65535");
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<uint16_t>(port));
  const std::string mapped = host.find(':') == std::string::npos ? "::ffff:" + host : host;
  if (::inet_pton(AF_INET6, mapped.c_str(), &address.sin6_addr) != 1) {
    return Error(ErrorKind::usage, "no address to listen on: " + quoted(host)).with_hint("an IPv6 or IPv4 literal, such as :: or 127.0.0.1");
  }
  Listener listener;
  listener.socket.reset(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket.valid()) return Error::from_errno(errno, "make a socket");
  const int fd = listener.socket.get();
  const int yes = 1, no = 0;
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 || ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no) != 0) {
    return Error::from_errno(errno, "set the socket's options");
  }
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return Error::from_errno(errno, "bind to " + address_text(address));
  if (::listen(fd, SOMAXCONN) != 0) return Error::from_errno(errno, "listen on " + address_text(address));
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return Error::from_errno(errno, "read the socket's address");
  listener.address = address_text(address);
  return listener;
}

Result<Peer> accept_from(const Listener& listener) {
  Peer peer;
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  peer.socket.reset(::accept4(listener.socket.get(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!peer.socket.valid()) {
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR || errno == EPROTO) return peer;
    return Error::from_errno(errno, "accept a connection");
  }
  peer.text = address_text(address, &peer.ip);
  return peer;
}

bool Flow::move(bool& broken) {
  for (;;) {
    const ssize_t moved = ::splice(from_, nullptr, to_, nullptr, size_t{1} << 16, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (moved > 0) {
      waits_for_room_ = false;
      continue;
    }
    if (moved < 0 && errno == EINTR) continue;
    if (moved < 0 && errno == EAGAIN) {
      // Which side it was is not said: bytes that wait mean that there is no room.
      pollfd ready{from_, POLLIN, 0};
      waits_for_room_ = ::poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN) != 0;
      return true;
    }
    broken = moved < 0;
    open_ = false;
    return false;
  }
}

}  // namespace sbx::nsjail
