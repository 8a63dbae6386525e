// Host paths that nobody should share with a sandbox (design section 4).
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "policy/resolve.h"

namespace sbx {
namespace {

// Below a home directory, with everything in them: what holds keys, tokens, passwords or a browser's session.
constexpr std::array<std::string_view, 52> kCredentials = {
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".oci",
    ".boto",
    ".s3cfg",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".gem/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".nuget/NuGet",
    ".composer/auth.json",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".terraform.d",
    ".password-store",
    ".pki",
    ".gnome2/keyrings",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/containers/auth.json",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/opera",
    ".var/app",
    "snap/firefox",
    "snap/chromium",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/git/credentials",
    ".config/op",
    ".config/rclone",
    ".config/sops",
    ".config/containers/auth.json",
};

// Refused with everything below.
struct Tree {
  std::string_view path;
  std::string_view reason;
};
constexpr std::array<Tree, 17> kTrees = {{
    {"/proc", "it shows the host's processes"},
    {"/sys", "it shows the host's hardware and kernel settings"},
    {"/dev", "it holds the host's devices"},
    {"/run/user", "it holds the sockets of the users' sessions"},
    {"/etc/shadow", "it holds password hashes"},
    {"/etc/shadow-", "it holds password hashes"},
    {"/etc/gshadow", "it holds password hashes"},
    {"/etc/gshadow-", "it holds password hashes"},
    {"/etc/sudoers", "it says who may become root"},
    {"/etc/sudoers.d", "it says who may become root"},
    {"/etc/ssh", "it holds the host's keys"},
    {"/etc/ssl/private", "it holds the host's keys"},
    {"/etc/pki/tls/private", "it holds the host's keys"},
    {"/etc/kubernetes", "it holds the cluster's keys"},
    {"/etc/wireguard", "it holds the host's keys"},
    {"/var/lib/docker", "it holds the host's containers"},
    {"/var/lib/containers", "it holds the host's containers"},
}};

// Refused exactly; what lies below is fine.
constexpr std::array<Tree, 9> kPlaces = {{
    {"/", "it is the whole host"},
    {"/etc", "it holds the host's settings and secrets"},
    {"/root", "it is a home directory"},
    {"/home", "it holds the home directories"},
    {"/run", "it holds the sockets of the host's services"},
    {"/tmp", "everybody's programs keep sockets and files there"},
    {"/var/tmp", "everybody's programs keep sockets and files there"},
    {"/var", "it holds the data and sockets of the host's services"},
    {"/var/lib", "it holds the data and sockets of the host's services"},
}};

Error refusal(std::string_view path, std::string_view reason, const std::string& origin, const char* advice) {
  const ErrorKind kind = starts_with(origin, "flag ") ? ErrorKind::usage : ErrorKind::policy;
  return Error(kind, "\"" + printable(path) + "\" is not shared: " + std::string(reason))
      .with_origin(origin)
      .with_hint(std::string(advice) + "--allow-sensitive-mount lets it through");
}

Error refusal(std::string_view path, std::string_view reason, const std::string& origin) {
  return refusal(path, reason, origin, "");
}

// The homes that passwd knows, without the places that system accounts share with everybody.
std::vector<std::string_view> homes_of(const HostFacts& facts) {
  std::vector<std::string_view> homes = {"/root"};
  const auto add = [&](std::string_view home) {
    // "/", "/bin", "/usr/sbin", "/var/lib/x", "/nonexistent": where system accounts say they live. A home in /var or
    // at the top of the tree counts when it is the caller's own, which facts.home says.
    if (home.size() > 1 && home.front() == '/') homes.push_back(home);
  };
  add(facts.home);
  for (const std::string& home : facts.other_homes) {
    const bool is_system = path_is_under(home, "/usr") || path_is_under(home, "/var") || path_is_under(home, "/bin") ||
                           path_is_under(home, "/sbin") || path_is_under(home, "/dev") ||
                           path_is_under(home, "/proc") || path_is_under(home, "/run");
    if (!is_system) add(home);
  }
  return homes;
}

// The credential place that `inside` (a path relative to a home) is or lies in; "" : none.
std::string_view credential_of(std::string_view inside) {
  for (const std::string_view name : kCredentials) {
    if (inside == name) return name;
    if (inside.size() > name.size() && starts_with(inside, name) && inside[name.size()] == '/') return name;
  }
  return {};
}

// `path` relative to `home`, "" when it is not below it.
std::string_view relative_to(std::string_view path, std::string_view home) {
  if (path.size() <= home.size() + 1 || !path_is_under(path, home)) return {};
  return path.substr(home.size() + 1);
}

}  // namespace

Status check_mount_source(std::string_view path, uint32_t mode, const HostFacts& facts, const std::string& origin) {
  if (S_ISSOCK(mode)) return refusal(path, "it is a socket, and whoever listens there acts for the host", origin);
  if (S_ISCHR(mode) || S_ISBLK(mode)) return refusal(path, "it is a device", origin);
  if (S_ISFIFO(mode)) return refusal(path, "it is a pipe of the host", origin);

  for (const Tree& place : kPlaces)
    if (path == place.path) return refusal(path, place.reason, origin, "share a directory below it, or ");
  for (const Tree& tree : kTrees)
    if (path_is_under(path, tree.path)) return refusal(path, tree.reason, origin);
  // The names of engine sockets, for the case that the mode is not known.
  for (const std::string_view socket :
       {"/run/docker.sock", "/var/run/docker.sock", "/run/containerd", "/run/podman", "/run/crio", "/run/dbus",
        "/run/systemd", "/run/secrets"})
    if (path_is_under(path, socket)) return refusal(path, "services of the host listen or keep secrets there", origin);

  const std::vector<std::string_view> homes = homes_of(facts);
  for (const std::string_view home : homes) {
    if (path == home) return refusal(path, "it is a home directory", origin, "share a directory below it, or ");
    if (path_is_under(home, path))
      return refusal(path, "it holds the home directory " + std::string(home), origin,
                     "share a directory below it, or ");
    if (const std::string_view name = credential_of(relative_to(path, home)); !name.empty())
      return refusal(path, "it holds credentials (" + std::string(name) + ")", origin);
    // A folder of which credentials are a part, such as ~/.config: the credentials would come along.
    if (const std::string_view inside = relative_to(path, home); !inside.empty()) {
      for (const std::string_view name : kCredentials)
        if (name.size() > inside.size() && starts_with(name, inside) && name[inside.size()] == '/')
          return refusal(path, "it holds credentials (" + std::string(name) + ")", origin,
                         "share a directory below it, or ");
    }
  }
  // A home that passwd does not know (a container's mount, a network account): /home/NAME and what it holds.
  if (const std::string_view below = relative_to(path, "/home"); !below.empty()) {
    const size_t slash = below.find('/');
    if (slash == std::string_view::npos)
      return refusal(path, "it is a home directory", origin, "share a directory below it, or ");
    if (const std::string_view name = credential_of(below.substr(slash + 1)); !name.empty())
      return refusal(path, "it holds credentials (" + std::string(name) + ")", origin);
  }
  return {};
}

}  // namespace sbx
