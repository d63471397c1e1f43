# The cases of tests/containers/run.
# shellcheck shell=bash disable=SC2154  # variables of the runner

# The daemon's, which is at the same path in all containers.
runtime_dir=$dir/softhca

images_for_tests() {
  with_programs softhca-base with-programs
  with_programs softhca-programs with-provider
}

# shellcheck disable=SC2016  # for dpkg-query
image_packages() { "${pod[@]}" run --rm --network none "$1" dpkg-query -W -f '${Package}\n' | sort; }

# It has the provider, what that depends on, and nothing else.
image_of_programs() {
  image_packages softhca-base >"$dir/before"
  image_packages softhca-programs >"$dir/after"
  comm -13 "$dir/before" "$dir/after" >"$dir/more"
  cat "$dir/more"
  diff - "$dir/more" <<<'libibverbs1
libnl-3-200
libnl-route-3-200
softhca-provider'
  "${pod[@]}" run --rm --network none softhca-programs softhca-run --version
}

image_of_plugin() {
  local code=0
  "${pod[@]}" run --rm --network none softhca-device-plugin --help | grep -- --resource
  "${pod[@]}" run --rm --network none softhca-device-plugin --resource small=2 || code=$?
  ((code == 2))  # no kubelet
}

# A daemon in a container, with tenants a and b.
start_daemon() {
  local libraries
  libraries=$(host_libraries)
  mkdir -p "$runtime_dir"
  cat >"$dir/softhca.toml" <<END
[daemon]
runtime_dir = "$runtime_dir"
[metrics]
address = ""
[[tenant]]
name = "a"
addresses = ["198.18.0.1"]
process_memory = false
[[tenant]]
name = "b"
addresses = ["198.18.0.2"]
process_memory = false
END
  # Root of the container is the user who runs it. It has to see the processes of its tenants.
  "${pod[@]}" run --detach --name softhcad --user 0:0 --pid host --network none --read-only --cap-drop all \
    --security-opt no-new-privileges --volume "$runtime_dir:$runtime_dir" \
    --volume "$libraries:$libraries:ro" --volume "$dir/softhca.toml:/etc/softhca/softhca.toml:ro" softhca-daemon \
    --config /etc/softhca/softhca.toml --libraries "$libraries"
  await daemon_ready || { "${pod[@]}" logs softhcad; false; }
}
daemon_ready() { "${pod[@]}" logs softhcad 2>&1 | grep 'ready: 2 tenants'; }

stop_daemon() {
  "${pod[@]}" stop --time 30 softhcad
  [[ $("${pod[@]}" inspect --format '{{.State.ExitCode}}' softhcad) == 0 ]] || { "${pod[@]}" logs softhcad; false; }
  "${pod[@]}" rm softhcad
}

await() {  # COMMAND...: up to half a minute
  local i
  for ((i = 0; i < 300; ++i)); do
    "$@" && return
    sleep 0.1
  done
  return 1
}

# ibv_rc_pingpong between two containers, told how to get a tenant each: options, then image and command.
pingpong() {  # SERVER CLIENT: names of arrays
  local -n server=$1 client=$2
  # The second is in the network of the first, where they meet by TCP.
  "${pod[@]}" run --detach --name server --network none "${server[@]}" ibv_rc_pingpong -g 0 -c
  await server_listens || { "${pod[@]}" logs server; false; }
  "${pod[@]}" run --rm --network container:server "${client[@]}" ibv_rc_pingpong -g 0 -c 127.0.0.1
  [[ $("${pod[@]}" wait server) == 0 ]] || { "${pod[@]}" logs server; false; }
  "${pod[@]}" rm server
}
# ibv_rc_pingpong's port is 18515.
server_listens() { "${pod[@]}" exec server grep -q ':4853 .* 0A ' /proc/net/tcp /proc/net/tcp6; }

# Options of podman that give a container what a CDI file says.
options_of() {  # FILE DEVICE
  /usr/bin/python3 - "$@" <<'END'
import json
import sys

spec = json.load(open(sys.argv[1], encoding="utf-8"))
device = next(each for each in spec["devices"] if each["name"] == sys.argv[2])
for edits in (spec["containerEdits"], device["containerEdits"]):
    for variable in edits.get("env", []):
        print(f"--env={variable}")
    for mount in edits["mounts"]:
        print(f"--volume={mount['hostPath']}:{mount['containerPath']}:ro")
END
}

# The libraries of the packages, as the host has them where they are installed.
host_libraries() {
  mkdir -p "$dir/host"
  dpkg-deb -x "$packages"/softhca-provider_*.deb "$dir/host"
  echo "$dir"/host/usr/lib/*-linux-gnu
}

traffic() {
  local as_a as_b
  start_daemon
  # softhca-run and the provider are in the image.
  as_a=(--volume "$runtime_dir:$runtime_dir" with-provider softhca-run --runtime-dir "$runtime_dir" --tenant a)
  as_b=(--volume "$runtime_dir:$runtime_dir" with-provider softhca-run --runtime-dir "$runtime_dir" --tenant b)
  pingpong as_a as_b
  # They come from the host, and the image knows nothing of them.
  mapfile -t as_a < <(options_of "$runtime_dir/cdi.json" a)
  mapfile -t as_b < <(options_of "$runtime_dir/cdi.json" b)
  as_a+=(with-programs) as_b+=(with-programs)
  pingpong as_a as_b
  "${pod[@]}" exec softhcad softhcactl --runtime-dir "$runtime_dir" status
  stop_daemon
}

cdi() {
  local as_a=(--device softhca.io/tenant=a with-programs) as_b=(--device softhca.io/tenant=b with-programs)
  mkdir -p /run/cdi 2>/dev/null || true  # the next line says what comes of it
  [[ -w /run/cdi ]] || { echo "podman reads CDI files from /run/cdi, where only root writes"; exit 77; }
  ln -s "$runtime_dir/cdi.json" /run/cdi/softhca.json
  start_daemon
  pingpong as_a as_b
  if "${pod[@]}" run --rm --device softhca.io/tenant=c with-programs true; then return 1; fi
  stop_daemon
  [[ ! -e $runtime_dir/cdi.json ]]
  rm /run/cdi/softhca.json
}

by_buildah() {
  command -v buildah >/dev/null || { echo "no buildah"; exit 77; }
  build "buildah --root $dir/store --runroot $dir/run build" programs
}

# The containers of the DaemonSet, as its manifest says, between a fake kubelet and containers of two pods,
# which have what the device plugin has answered.
manifest() {
  local node=$dir/node first second
  ((EUID == 0)) || { echo "needs root: it has paths of a node"; exit 77; }
  command -v grpc_python_plugin >/dev/null || { echo "no grpc_python_plugin; install: tools/install-packages test"; exit 77; }
  command -v kubectl >/dev/null || { echo "no kubectl, which builds the manifests"; exit 77; }
  mount -t tmpfs tmpfs /var/lib
  mount -t tmpfs tmpfs /opt
  mkdir "$node"
  "$root/deploy/kubernetes/compile-protos" "$node/generated"
  PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$node/generated /usr/bin/python3 "$here/node.py" "$node" &
  kubelet=$!
  trap 'kill $kubelet; umount --lazy /opt /var/lib' EXIT
  as_in_manifest --rm provider
  as_in_manifest --detach softhcad
  as_in_manifest --detach device-plugin
  await test -e "$node/ready" || { "${pod[@]}" logs device-plugin; false; }
  mapfile -t first <"$node/server"
  mapfile -t second <"$node/client"
  # As any user: on the node only root gets to the sockets.
  first+=(--user 1234 with-programs) second+=(--user 4321 with-programs)
  [[ $(stat -c %a /run/softhca) == 700 ]]
  pingpong first second
  "${pod[@]}" exec softhcad softhcactl status
  "${pod[@]}" exec softhcad softhcactl tenants | grep pod-small-0
  touch "$node/end"
  await no_tenants || { "${pod[@]}" logs device-plugin; false; }
  "${pod[@]}" stop --time 30 device-plugin
  "${pod[@]}" logs device-plugin
  stop_daemon
}
as_in_manifest() {  # OPTION CONTAINER
  local options
  mapfile -t options < <(/usr/bin/python3 "$here/manifest_options.py" "$2" "$node")
  "${pod[@]}" run "$1" --name "$2" "${options[@]}"
}
no_tenants() { ! "${pod[@]}" exec softhcad softhcactl tenants | grep pod-; }
