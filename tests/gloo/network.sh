# Hosts of four ranks: network namespaces on a bridge where this user may make some, and this
# machine otherwise. Read by the scripts here; RL_NAMESPACES says which it is.

# enter_namespaces ARGUMENT...: runs the script again, with its arguments, as root of a user
# namespace with network and mounts of its own.
enter_namespaces() {
  [[ ${RL_NAMESPACES:-} == "" ]] || return 0
  if unshare -rnm true 2>/dev/null && command -v ip >/dev/null; then
    exec unshare -rnm env RL_NAMESPACES=yes bash "$0" "$@"
  fi
  export RL_NAMESPACES=no
  echo "on loopback: this user may not make network namespaces, or there is no command ip"
}

# A bridge, and a namespace for each of four ranks with an address on it.
make_network() {
  [[ $RL_NAMESPACES == yes ]] || return 0
  mount -t tmpfs none /run
  ip link set lo up
  ip link add bridge type bridge
  ip link set bridge up
  local rank
  for rank in 0 1 2 3; do
    ip netns add "rank$rank"
    ip link add "outer$rank" type veth peer name inner netns "rank$rank"
    ip link set "outer$rank" master bridge up
    ip -n "rank$rank" link set lo up
    ip -n "rank$rank" addr add "$(address_of "$rank")/24" dev inner
    ip -n "rank$rank" link set inner up
  done
}

# address_of RANK ELSE: its address on the bridge, or what is given for this machine.
address_of() {
  if [[ $RL_NAMESPACES == yes ]]; then echo "10.77.0.$(($1 + 1))"; else echo "$2"; fi
}

# on_host RANK COMMAND...: in place of the shell that calls it, with & after it.
on_host() {
  local rank=$1
  shift
  if [[ $RL_NAMESPACES == yes ]]; then exec ip netns exec "rank$rank" "$@"; else exec "$@"; fi
}
