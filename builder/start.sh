#!/bin/sh
# Starts BuildKit so that builds reach public addresses only. Runs in the image of BuildKit, as root.
#
#   SLUICE_URL            what image names begin with; the builder fetches base images there
#   SLUICE_AT             host:port at which Sluice answers in the network of this container. Without it the
#                         container is on the network of the machine, where that URL leads to Sluice by itself
#   SLUICE_BUILDER_OPEN   addresses and networks that builds may reach although they are not public
#   SLUICE_BUILDER_GROUP  number of the group that may open the builder's socket
set -eu

bridge=sluice0
gateway=10.194.0.1
here=$(dirname "$0")
state=/run/sluice-builder
# As in Sluice itself. Source: IANA special-purpose address registries (RFC 6890).
closed='0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
  192.0.2.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4'
open=$(echo "${SLUICE_BUILDER_OPEN:-}" | tr ',' ' ')
at=${SLUICE_AT:-}
url=${SLUICE_URL:-http://127.0.0.1:9090}

authority=${url#*://}
authority=${authority%%/*}
url_host=${authority%:*}
case $authority in
  *:*) url_port=${authority##*:} ;;
  *) case $url in https:*) url_port=443 ;; *) url_port=80 ;; esac ;;
esac

is_loopback() { case $1 in 127.* | localhost) true ;; *) false ;; esac; }

# By the only program of the image that resolves names as all others do.
address_of() { ping -4 -c 1 -W 1 "$1" 2>/dev/null | sed -n '1s/^PING [^(]*(\([0-9.]*\)).*/\1/p'; }

# Rules of a chain: those for the open addresses, then those for the closed ones.
by_address() {
  for address in $open; do echo "-A $1 -d $address -j ACCEPT"; done
  for address in $closed; do echo "-A $1 -d $address -j REJECT"; done
}

# Begins a built-in chain with a jump, also where an earlier start left one that is not the first any more.
jump() {
  tables=$1 table=$2 chain=$3
  shift 3
  while "$tables" -t "$table" -D "$chain" "$@" 2>/dev/null; do :; done
  "$tables" -t "$table" -I "$chain" 1 "$@"
}

# What the steps of builds reach: they are behind a bridge.
guard_steps() {
  {
    echo '*filter'
    echo ':SLUICE-STEPS-IN -'
    echo '-A SLUICE-STEPS-IN -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT'
    for kind in udp tcp; do
      [ -z "$dns" ] || echo "-A SLUICE-STEPS-IN -d 127.0.0.11 -p $kind -m conntrack --ctstate DNAT -j ACCEPT"
    done
    echo '-A SLUICE-STEPS-IN -j REJECT'
    echo ':SLUICE-STEPS-OUT -'
    by_address SLUICE-STEPS-OUT
    echo '-A SLUICE-STEPS-OUT -j ACCEPT'
    echo ':SLUICE-STEPS-BACK -'
    echo '-A SLUICE-STEPS-BACK -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT'
    echo '-A SLUICE-STEPS-BACK -j DROP'
    echo COMMIT
  } | iptables-restore --noflush
  jump iptables filter INPUT -i $bridge -j SLUICE-STEPS-IN
  jump iptables filter FORWARD -o $bridge -j SLUICE-STEPS-BACK
  jump iptables filter FORWARD -i $bridge -j SLUICE-STEPS-OUT
  [ -e /proc/net/if_inet6 ] || return 0
  jump ip6tables filter INPUT -i $bridge -j DROP
  jump ip6tables filter FORWARD -i $bridge -j DROP
}

# What the builder itself reaches, and who reaches it, in a network of its own.
guard_builder() {
  {
    echo '*filter'
    echo ':SLUICE-IN -'
    echo '-A SLUICE-IN -i lo -j ACCEPT'
    echo '-A SLUICE-IN -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT'
    echo '-A SLUICE-IN -j DROP'
    echo ':SLUICE-SERVER -'
    echo ':SLUICE-OUT -'
    echo '-A SLUICE-OUT -o lo -j ACCEPT'
    echo '-A SLUICE-OUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT'
    echo '-A SLUICE-OUT -j SLUICE-SERVER'
    # The name servers of the machine, which Docker asks from here.
    for kind in udp tcp; do echo "-A SLUICE-OUT -p $kind --dport 53 -j ACCEPT"; done
    by_address SLUICE-OUT
    echo '-A SLUICE-OUT -j ACCEPT'
    echo COMMIT
    echo '*nat'
    echo ':SLUICE-TO-SERVER -'
    echo ':SLUICE-FROM-HERE -'
    echo ':SLUICE-DNS -'
    for kind in udp tcp; do
      port=$(name_server_port $kind)
      [ -z "$port" ] || echo "-A SLUICE-DNS -d $gateway -p $kind --dport 53 -j DNAT --to-destination 127.0.0.11:$port"
    done
    echo COMMIT
  } | iptables-restore --noflush
  jump iptables filter INPUT -j SLUICE-IN
  jump iptables filter OUTPUT -j SLUICE-OUT
  jump iptables nat OUTPUT -j SLUICE-TO-SERVER
  jump iptables nat POSTROUTING -j SLUICE-FROM-HERE
  jump iptables nat PREROUTING -i $bridge -j SLUICE-DNS
  # What is sent to the loopback goes out to Sluice, and from the bridge to the name server of Docker.
  echo 1 > /proc/sys/net/ipv4/conf/all/route_localnet
  [ ! -e /proc/sys/net/ipv6/conf/all/disable_ipv6 ] || echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
}

# The port of the name server that Docker runs in a network of its own; nothing where there is none.
name_server_port() {
  netstat -ln 2>/dev/null | awk -v kind="$1" '$1 == kind && $4 ~ /^127\.0\.0\.11:/ { sub(/.*:/, "", $4); print $4; exit }'
}

# Leads the builder to Sluice, whose address changes when its container is made again.
lead_to_server() {
  last=
  while :; do
    if is_loopback "$url_host"; then
      found=$(address_of "${at%:*}") port=${at##*:}
    else
      found=$(address_of "$url_host") port=$url_port
    fi
    if [ -n "$found" ] && [ "$found" != "$last" ]; then
      {
        echo '*filter'
        echo ':SLUICE-SERVER -'
        echo "-A SLUICE-SERVER -d $found -p tcp --dport $port -j ACCEPT"
        echo COMMIT
        echo '*nat'
        echo ':SLUICE-TO-SERVER -'
        echo ':SLUICE-FROM-HERE -'
        if is_loopback "$url_host"; then
          echo "-A SLUICE-TO-SERVER -d 127.0.0.1 -p tcp --dport $url_port -j DNAT --to-destination $found:$port"
          echo "-A SLUICE-FROM-HERE -s 127.0.0.0/8 -d $found -p tcp --dport $port -j MASQUERADE"
        fi
        echo COMMIT
      } | iptables-restore --noflush && last=$found
      echo "The builder reaches $authority at $found:$port" >&2
    fi
    sleep 2
  done
}

mkdir -p $state
dns=
if [ -n "$at" ]; then
  dns=$(name_server_port udp)
  guard_builder
  lead_to_server &
fi
guard_steps

for plugin in bridge host-local loopback; do
  ln -sf "$(command -v buildkit-cni-$plugin)" $state/$plugin
done
cp "$here/runc.sh" $state/runc
chmod 755 $state/runc
{
  cat "$here/buildkitd.toml"
  [ -z "$dns" ] || printf '[dns]\n  nameservers = ["%s"]\n' $gateway
  case $url in
    http:*) is_loopback "$url_host" || printf '[registry."%s"]\n  http = true\n' "$authority" ;;
  esac
} > $state/buildkitd.toml

exec buildkitd-entrypoint --config $state/buildkitd.toml --group "${SLUICE_BUILDER_GROUP:-0}"
