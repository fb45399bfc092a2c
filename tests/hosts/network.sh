#!/usr/bin/env bash
# Hosts made of network namespaces, each with a name and an address of its own, on one switch with full duplex links; and a
# command that runs among them. Everything lies in namespaces of this call: when it ends, however it ends, nothing is left.
# usage: network.sh [options] COMMAND...
#   --hosts N      how many (2)
#   --rate RATE    of each link and direction, as tc writes it: 1gbit, 100mbit; none: as fast as this machine is (none)
#   --delay US     one way, and
#   --loss SHARE   of packets, 0 to 1: by a switch of our own (--switch PROGRAM), because few kernels have netem
# TCP's congestion control is CUBIC; where a system has none, a line says what it is. The command runs beside the hosts and
# finds them through the environment: HOSTS (their names), HOSTS_ADDRESSES, HOSTS_CONTROL (cubic), and `on HOST command...`,
# which runs something on one of them and does as mpirun's rsh agent. 77: not allowed here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

hosts=2 rate=none delay=0 loss=0 switch=
fail() { echo "network.sh: $*" >&2; exit 2; }
given=("$@")
while [ $# -gt 0 ]; do
  case $1 in
    --hosts) hosts=$2 ;;
    --rate) rate=$2 ;;
    --delay) delay=$2 ;;
    --loss) loss=$2 ;;
    --switch) switch=$2 ;;
    --) shift; break ;;
    -*) fail "$1: no such option" ;;
    *) break ;;
  esac
  shift 2
done
[ $# -gt 0 ] || fail "which command?"

# Namespaces of networks, mounts and processes: the last makes sure that nobody outlives this call. Without root it takes
# one of users, which not every system allows.
if [ -z "${HOSTS_INSIDE:-}" ]; then
  as=(unshare --net --mount --pid --fork --kill-child --mount-proc)
  [ "$(id -u)" = 0 ] || as+=(--user --map-root-user)
  for program in unshare ip tc; do
    command -v $program > /dev/null || { echo "skipped: no $program here"; exit 77; }
  done
  "${as[@]}" true 2> /dev/null || { echo "skipped: this system allows no namespaces"; exit 77; }
  HOSTS_INSIDE=1 exec "${as[@]}" "${BASH_SOURCE[0]}" "${given[@]}"
fi
unset HOSTS_INSIDE

HOSTS_DIR=$(mktemp -d)
trap 'rm -rf "$HOSTS_DIR"' EXIT
mkdir -p /run/netns 2> /dev/null || true
mount -t tmpfs none /run/netns || { echo "skipped: no folder for namespaces"; exit 77; }

# Segments that are longer than the bucket are cut into single packets on their way, which costs more than the rest of the
# kernel's work; half a bucket is short enough.
burst=32768 segment=16384
shape() {  # shape HOST-or-"" DEVICE
  local inside=()
  [ -z "$1" ] || inside=(-n "$1")
  ip "${inside[@]}" link set "$2" gso_max_size $segment
  tc "${inside[@]}" qdisc replace dev "$2" root tbf rate "$rate" burst $burst latency 20ms
}

HOSTS= HOSTS_ADDRESSES=
ip link set lo up
for i in $(seq 1 "$hosts"); do
  HOSTS+="${HOSTS:+ }host$i" HOSTS_ADDRESSES+="${HOSTS_ADDRESSES:+ }10.77.0.$i"
  echo "10.77.0.$i host$i" >> "$HOSTS_DIR/hosts"
  ip netns add host$i
  ip -n host$i link set lo up
done
echo "127.0.0.1 localhost" >> "$HOSTS_DIR/hosts"
mount --bind "$HOSTS_DIR/hosts" /etc/hosts

if [ "$delay" = 0 ] && [ "$loss" = 0 ]; then
  ip link add switch type bridge
  ip link set switch up
  # A switch has no firewall; where this machine's would look at every packet that costs more than the switch itself.
  for hook in /proc/sys/net/bridge/bridge-nf-call-*; do
    (echo 0 > "$hook") 2> /dev/null || true
  done
  for i in $(seq 1 "$hosts"); do
    ip link add eth0 netns host$i type veth peer name port$i
    ip link set port$i master switch up
    ip -n host$i addr add 10.77.0.$i/24 dev eth0
    ip -n host$i link set eth0 up
    if [ "$rate" != none ]; then
      shape host$i eth0
      shape "" port$i
    fi
  done
else
  [ -x "$switch" ] || fail "--delay and --loss need --switch"
  [ -w /dev/net/tun ] || { echo "skipped: no use of /dev/net/tun here"; exit 77; }
  "$switch" "$hosts" "$rate" "$delay" "$loss" > "$HOSTS_DIR/switch" &
  for _ in $(seq 1 100); do
    grep -q up "$HOSTS_DIR/switch" && break
    sleep 0.05
  done
  grep -q up "$HOSTS_DIR/switch" || fail "the switch does not start"
fi

# CUBIC, as Linux has it unless told otherwise; this machine may use another. By the route, as a namespace may only choose
# what this machine allows everybody.
HOSTS_CONTROL=cubic
for i in $(seq 1 "$hosts"); do
  ip -n host$i route replace 10.77.0.0/24 dev eth0 proto kernel scope link src 10.77.0.$i congctl cubic || {
    HOSTS_CONTROL=$(cat /proc/sys/net/ipv4/tcp_congestion_control)
    echo "# no CUBIC here: TCP's congestion control is $HOSTS_CONTROL"
    break
  }
done

cat > "$HOSTS_DIR/on" << 'ON'
#!/bin/sh
# on HOST command...: as rsh runs it, so what follows is a line of shell.
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c 'hostname "$0" && exec sh -c "$1"' "$host" "$*"
ON
chmod +x "$HOSTS_DIR/on"
export HOSTS HOSTS_ADDRESSES HOSTS_CONTROL HOSTS_DIR PATH="$HOSTS_DIR:$PATH"
status=0
"$@" || status=$?
exit $status
