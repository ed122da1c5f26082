#!/bin/sh
# First process of the builder's own mount and process namespaces: all that it starts and mounts ends with it.
#
# usage: supervise.sh FOLDER STATE BYTES COMMAND...
#   FOLDER   short-lived: resolv.conf, rules.nft; the state is mounted at FOLDER/state
#   STATE    the file system of BYTES bytes for the builder's state is kept here
#   COMMAND  buildkitd
#
# Reads lines: "rules" loads FOLDER/rules.nft again, "stop" ends the builder gracefully. At the end of the input,
# which is the end of the server, it exits at once.
set -eu
# When the machine has no memory left, the kernel ends the builder and its steps before the server.
echo 500 > /proc/self/oom_score_adj || true
folder=$1 state=$2 bytes=$3
shift 3
net=$folder/net
image=$state/state-$bytes.img

# The one before may be on its way out: two mounts of one image destroy it.
exec 9> "$state/state.lock"
flock 9
tries=0
while [ -n "$(losetup -j "$image")" ] && [ $tries -lt 200 ]; do
  tries=$((tries + 1))
  sleep 0.05
done
for old in "$state"/state-*.img; do
  [ "$old" = "$image" ] || rm -f "$old"
done
make_image() {
  rm -f "$image"
  # It holds images that others may not read.
  (umask 077 && : > "$image.new")
  truncate -s "$bytes" "$image.new"
  mkfs.ext4 -q -F -m 0 -i 8192 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard "$image.new"
  mv "$image.new" "$image"
}
mount_image() {
  mount -o loop,discard,noatime "$image" "$folder/state"
}
mkdir -p "$folder/state"
[ -e "$image" ] || make_image
# It is a cache: what cannot be repaired is made new.
e2fsck -p "$image" > /dev/null 2>&1 || [ $? = 1 ] || make_image
mount_image 2> /dev/null || { make_image && mount_image; }
# BuildKit leaves an empty folder there for each step with an SSH agent.
rm -rf "$folder/state/tmp"
mkdir "$folder/state/tmp"

[ ! -e /etc/resolv.conf ] || mount --bind "$folder/resolv.conf" /etc/resolv.conf

: > "$net"
unshare --net="$net" ip link set lo up
inside() {
  nsenter --net="$net" -- "$@"
}
# Each connection of a step takes a descriptor.
ulimit -n 65536 2> /dev/null || true
slirp4netns --configure --mtu=65520 --cidr="$SLUICE_NETWORK" --netns-type=path \
  --enable-sandbox --enable-seccomp "$net" tap0 > /dev/null 9>&- &
tries=0
until inside ip -4 -o addr show dev tap0 2> /dev/null | grep -q inet; do
  tries=$((tries + 1))
  [ $tries -lt 500 ] || exit 1
  sleep 0.02
done
inside sh -c '
  cd /proc/sys/net/ipv4
  echo 1 > ip_forward
  echo 1 > conf/tap0/route_localnet
  echo 0 > conf/all/rp_filter
  echo 0 > conf/tap0/rp_filter'
inside nft -f "$folder/rules.nft"
# Each step needs such a pair: without them no step would start.
inside ip link add probe type veth peer name probe-peer || {
  echo 'This machine cannot make virtual Ethernet interfaces: load the kernel module veth' >&2
  exit 1
}
inside ip link del probe

trap 'exit 1' TERM
(
  code=0
  # Only the builder: what it starts for a step joins the group of its build.
  inside sh -c 'echo $$ > "$0" && echo $$ > "$SLUICE_DAEMON_GROUP/cgroup.procs" && exec "$@"' \
    "$folder/pid" "$@" < /dev/null || code=$?
  echo "ended with $code" >&2
  kill -TERM 1
) &
while read -r line; do
  case $line in
    rules) inside nft -f "$folder/rules.nft" || true ;;
    stop)
      trap 'exit 0' TERM
      kill -TERM "$(cat "$folder/pid")" ;;
  esac
done
exit 0
