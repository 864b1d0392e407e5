#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
#
# ./dev clean-root: makes a bare Debian 12, clones the checkout into it (what is committed, no more), and runs
# ./dev demo and ./dev test there twice: as root, and in another bare root as a user with sudo. Needs root and
# mmdebstrap. Writes build/clean-root.json; the outputs are kept in build/clean-root/.
#
# What this host's own network needs (its certificates, resolv.conf and the settings of apt, pip, go and cargo) is
# copied in here, by this script; ./dev knows nothing of it.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: ./dev clean-root [--as root|user] [--rounds N] [--only demo|test] [--test-args ARGS] [--keep]
  --as         one of the two instead of both
  --rounds     runs of each command in one root (2)
  --only       one of the two commands
  --test-args  handed to ./dev test, for trials of this script
  --keep       leave the roots in build/clean-root/ to look around
TEXT
}

arguments=("$@")
who="root user" rounds=2 commands="demo test" test_args="" keep=no
while [ $# -gt 0 ]; do
    case $1 in
    --as) who=${2:?} && shift ;;
    --rounds) rounds=${2:?} && shift ;;
    --only) commands=${2:?} && shift ;;
    --test-args) test_args=${2:?} && shift ;;
    --keep) keep=yes ;;
    --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
    esac
    shift
done

cd "$(dirname "$0")/../.."
checkout=$PWD
if [ "$(id -u)" != 0 ]; then
    echo "clean-root: needs root, for chroot and mounts: sudo ./dev clean-root" >&2
    exit 3
fi
for tool in mmdebstrap unshare git python3; do
    if ! command -v $tool >/dev/null; then
        echo "clean-root: there is no $tool here: apt install mmdebstrap util-linux git python3" >&2
        exit 3
    fi
done

# Mounts live in a namespace of their own: they, and all processes in the roots, end with this script.
if [ "${QUOIT_CLEANROOT_INSIDE:-}" != yes ]; then
    export QUOIT_CLEANROOT_INSIDE=yes
    exec unshare --mount --pid --fork --kill-child -- "$checkout/tools/cleanroot/run.sh" "${arguments[@]}"
fi
unset QUOIT_CLEANROOT_INSIDE
mount --make-rprivate /

work=$checkout/build/clean-root
started=$(date -u +%Y-%m-%dT%H:%M:%SZ)
rm -rf "$work"
mkdir -p "$work"
rows=$work/rows

# The base: Debian's smallest, with nothing but what apt needs.
make_root() {
    local dir=$1 sources=/etc/apt/sources.list.d/debian.sources
    echo "clean-root: making $dir"
    # The host's own mirror where it is a Debian, else mmdebstrap's.
    # shellcheck disable=SC2046
    mmdebstrap --quiet --variant=minbase bookworm "$dir" $([ ! -f $sources ] || echo $sources)
    cp -L /etc/resolv.conf "$dir/etc/resolv.conf"
    mkdir -p "$dir/usr/local/share/ca-certificates"
    cp -r /usr/local/share/ca-certificates/. "$dir/usr/local/share/ca-certificates/"
    grep -ilsE '^Acquire' /etc/apt/apt.conf.d/* | xargs -r cp -t "$dir/etc/apt/apt.conf.d/" || true
    [ ! -f /etc/pip.conf ] || cp /etc/pip.conf "$dir/etc/"
    mount -t proc proc "$dir/proc"
    mount --rbind /dev "$dir/dev"
    mount --rbind /sys "$dir/sys"
}

# What the host's clients read from the environment and from the home folder.
client_environment() {
    env | grep -E '^(PIP_|GOPROXY|GONOPROXY|GOSUMDB|GONOSUMDB|CARGO_HTTP|CARGO_NET|SSL_CERT_FILE|https?_proxy|HTTPS?_PROXY|no_proxy|NO_PROXY)' |
        grep -vE '^PIP_(FIND_LINKS|NO_INDEX)' || true
}

copy_client_files() {
    local home=$1
    if [ -f "${CARGO_HOME:-$HOME/.cargo}/config.toml" ]; then
        mkdir -p "$home/.cargo"
        cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$home/.cargo/"
    fi
    if grep -qs GOPROXY "$HOME/.config/go/env"; then
        mkdir -p "$home/.config/go"
        grep -E '^(GOPROXY|GOSUMDB|GONOSUMDB)=' "$HOME/.config/go/env" >"$home/.config/go/env"
    fi
}

# in_root DIR USER HOME COMMAND...: with a fresh environment, as a login would have it.
in_root() {
    local dir=$1 user=$2 home=$3
    shift 3
    local as=()
    [ "$user" = root ] || as=(setpriv --reuid "$user" --regid "$user" --init-groups)
    mapfile -t clients < <(client_environment)
    chroot "$dir" /usr/bin/env -i HOME="$home" USER="$user" LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${clients[@]}" "${as[@]}" "$@"
}

packages_of() {
    # shellcheck disable=SC2016 # dpkg's variable, not the shell's
    dpkg-query --admindir="$1/var/lib/dpkg" -W -f '${Package}\n' | sort
}

trial() {
    local user=$1 dir=$work/$1 name=root home=/root
    make_root "$dir"
    if [ "$user" = user ]; then
        name=tester home=/home/tester
        in_root "$dir" root /root sh -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends sudo' \
            >"$work/user-sudo.log" 2>&1
        in_root "$dir" root /root sh -c 'useradd -m -s /bin/sh tester && echo "tester ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/tester && rm -rf /var/lib/apt/lists/*'
    fi
    git -c safe.directory='*' clone --quiet --no-hardlinks "$checkout" "$dir$home/quoit"
    copy_client_files "$dir$home"
    chroot "$dir" chown -R "$name:$name" "$home"
    packages_of "$dir" >"$work/$user-before"
    for round in $(seq "$rounds"); do
        for command in $commands; do
            local log=$work/$user-$round-$command.log rc=0 begin=$SECONDS args=""
            [ "$command" != test ] || args=$test_args
            echo "clean-root: ./dev $command as $user, round $round (output in ${log#"$checkout"/})"
            # shellcheck disable=SC2086
            in_root "$dir" "$name" "$home" sh -c 'cd ~/quoit && exec ./dev "$@"' sh "$command" $args \
                >"$log" 2>&1 </dev/null || rc=$?
            echo "clean-root: ended with $rc after $((SECONDS - begin)) s: $(grep . "$log" | tail -n 1)"
            echo "$user $round $command $rc $((SECONDS - begin))" >>"$rows"
            cp "$dir$home/quoit/build/$command.json" "$work/$user-$round-$command.json" 2>/dev/null || true
        done
    done
    packages_of "$dir" >"$work/$user-after"
    cp "$dir$home/quoit/build/setup-installed" "$work/$user-asked" 2>/dev/null || true
    umount -R "$dir/dev" "$dir/sys" "$dir/proc"
    [ "$keep" = yes ] || rm -rf --one-file-system "$dir"
}

for user in $who; do
    trial "$user"
done
python3 "$checkout/tools/cleanroot/report.py" "$work" "$started" "$SECONDS" ./dev clean-root "${arguments[@]}"
