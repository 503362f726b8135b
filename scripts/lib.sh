# Sourced by try and test: what a machine with Rust and nothing else lacks.
# shellcheck shell=bash

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

say() { printf '%s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
fail() {
    say "$@"
    exit 1
}

# install_tools [server] [compiler]: installs those that are missing.
install_tools() {
    # Where rustup has put it, for a shell that has not read its profile again.
    have cargo || PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
    have cargo || fail "There is no cargo on this machine. Install Rust first: https://rustup.rs"

    local tool missing=()
    for tool in "$@"; do
        "have_$tool" || missing+=("$tool")
    done
    [ ${#missing[@]} -eq 0 ] || install_missing "${missing[@]}"

    # Some distributions carry only Valkey. The examples look for it by themselves.
    if ! have redis-server && have valkey-server; then
        export LEASEHOLD_TEST_REDIS="${LEASEHOLD_TEST_REDIS:-valkey-server}"
    fi
}

have_server() { have redis-server || have valkey-server; }

# Rust links with `cc`, and the examples' bundled SQLite is C; the crate itself compiles
# none. A `cc` without the C library's headers links and does not compile.
have_compiler() { have cc && echo '#include <stdio.h>' | cc -E -x c - >/dev/null 2>&1; }

install_missing() {
    local manager tool
    for manager in apt-get dnf pacman apk zypper brew none; do
        have "$manager" && break
    done
    [ "$manager" != none ] ||
        fail "Missing here: $*. This script knows none of the package managers on this machine:" \
            "install redis-server (or valkey-server) and a C compiler, then run it again."
    say "Missing here: $*. Installing with $manager."
    # A fresh image has no package lists. Old ones may do where the network does not.
    [ "$manager" != apt-get ] || as_root apt-get -qq update || say "(going on with the lists as they are)"
    for tool in "$@"; do
        if ! "install_$tool" "$manager" || ! "have_$tool"; then
            fail "$manager did not give us the $tool: install it by hand, then run this again."
        fi
    done
}

# The second name is for distributions that have replaced the one by the other.
install_server() {
    case $1 in
    # Where systemd runs, Debian's package starts its service as well. Preventing that takes
    # a masked unit or a policy file in /usr/sbin, which changes more of somebody's machine
    # than an idle service on 127.0.0.1:6379 does. Nothing here ever uses that one.
    apt-get) apt_install redis-server ;;
    dnf) as_root dnf -y install redis || as_root dnf -y install valkey ;;
    pacman) as_root pacman -Sy --needed --noconfirm valkey || as_root pacman -S --needed --noconfirm redis ;;
    apk) as_root apk add redis || as_root apk add valkey ;;
    zypper) as_root zypper --non-interactive install redis || as_root zypper --non-interactive install valkey ;;
    brew) announce brew install redis ;;
    esac
}

install_compiler() {
    case $1 in
    apt-get) apt_install gcc libc6-dev ;;
    dnf) as_root dnf -y install gcc ;;
    pacman) as_root pacman -Sy --needed --noconfirm gcc ;;
    apk) as_root apk add build-base ;;
    zypper) as_root zypper --non-interactive install gcc ;;
    brew) fail "There is no C compiler. Run xcode-select --install, then this again." ;;
    esac
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "$@"
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        announce "$@"
    elif ! have sudo; then
        fail "This takes root, and there is no sudo here. As root: $*"
    elif [ -t 0 ]; then
        announce sudo "$@"
    else
        # Nobody is there to type a password.
        announce sudo -n "$@"
    fi
}

# Nothing is changed on the machine before it has been shown.
announce() {
    say "+ $*"
    "$@" >&2
}
