#!/bin/sh
# The network of one step, as a CNI plugin (https://www.cni.dev/docs/spec): a pair of virtual interfaces, whose
# other end only the builder's own network namespace routes. Nothing is bridged: steps do not see each other.
set -eu
# Messages of programs are compared.
export LC_ALL=C
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
    # Each step gets the next address. Addresses in use are passed over: their interfaces exist.
    exec 8>> "$SLUICE_FOLDER/address"
    flock 8
    number=$(cat "$SLUICE_FOLDER/address")
    tries=0
    while :; do
      number=$((${number:-0} % 50000 + 1)) tries=$((tries + 1))
      ! reason=$(ip link add "step$number" mtu $mtu type veth peer name "$CNI_IFNAME" mtu $mtu \
        netns "$CNI_NETNS" 2>&1) || break
      # Any other failure would repeat itself.
      case $tries:$reason in
        1000:*) ;;
        *'File exists'*) continue ;;
      esac
      echo "The network of a step cannot be made: $reason" >&2
      exit 1
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
