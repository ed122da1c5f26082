#!/bin/sh
# The network of one step, as a CNI plugin (https://www.cni.dev/docs/spec): a pair of virtual interfaces, whose
# other end only the builder's own network namespace routes. Nothing is bridged: steps do not see each other.
set -eu
gateway=198.19.255.254
# As of what leads out: large packets make it fast.
mtu=65520
version() {
  sed -n 's/.*"cniVersion" *: *"\([0-9.]*\)".*/\1/p' | head -n 1
}
in_step() {
  nsenter --net="$CNI_NETNS" -- ip -batch -
}
case ${0##*/}:$CNI_COMMAND in
  *:VERSION)
    echo '{"cniVersion":"1.0.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0"]}' ;;
  loopback:ADD)
    version=$(version)
    echo 'link set lo up' | in_step
    echo "{\"cniVersion\":\"$version\",\"ips\":[{\"version\":\"4\",\"address\":\"127.0.0.1/8\"}]}" ;;
  *:ADD)
    version=$(version)
    # Each gets the next address; those in use are passed over, for their interfaces are there.
    exec 8>> "$SLUICE_FOLDER/address"
    flock 8
    number=$(cat "$SLUICE_FOLDER/address")
    while :; do
      number=$((${number:-0} % 50000 + 1))
      ip link add "step$number" mtu $mtu type veth peer name "$CNI_IFNAME" mtu $mtu \
        netns "$CNI_NETNS" && break
    done
    echo "$number" > "$SLUICE_FOLDER/address"
    flock -u 8
    address=198.19.$((number / 250)).$((number % 250 + 1))
    in_step <<END
link set lo up
addr add $address/32 dev $CNI_IFNAME
link set $CNI_IFNAME up
route add $gateway dev $CNI_IFNAME scope link
route add default via $gateway dev $CNI_IFNAME
END
    ip -batch - <<END
link set step$number up
addr add $gateway/32 dev step$number
route add $address/32 dev step$number
END
    echo "{\"cniVersion\":\"$version\",\"ips\":[{\"version\":\"4\",\"address\":\"$address/32\",\"gateway\":\"$gateway\"}]}" ;;
  # They end with the namespace of the step.
  *:DEL | *:CHECK) ;;
esac
