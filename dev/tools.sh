#!/usr/bin/env bash
# Fills bin/ with the programs of the local environment, in the pinned versions. One that is there stays; one that
# KUBEBUILDER_ASSETS or PATH has in a suitable version is linked; else it is built from Go modules. `make tools` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/bin
pin() { awk -v module="$2" '$1 == module {print $2; exit}' "$1"; } # FILE MODULE -> its version in that go.mod
kubernetes=$(pin dev/controlplane/go.mod k8s.io/kubernetes)
kwok=$(pin dev/go.mod sigs.k8s.io/kwok) # also the version of the stages that dev/env gives it
temporal=v1.5.1                         # holds the server 1.29.1
all=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok temporal)

# suitable NAME FILE: the file is that program in the version that the environment is tried with.
suitable() {
  local version flag=--version
  [[ $1 == kubectl ]] && flag="version --client"
  # shellcheck disable=SC2086 # the flag is two words for kubectl
  version=$("$2" $flag 2>/dev/null) || return 1
  case $1 in
    etcd) [[ $version == *"etcd Version: 3."[67].* ]] ;;
    kwok) [[ $version == *" $kwok "* ]] ;;
    temporal) [[ $version == *"Server 1.29."* ]] ;;
    *) [[ $version == *"$kubernetes"* ]] ;;
  esac
}

# link NAME: links the program when this machine has a suitable one.
link() {
  local file
  for file in "${KUBEBUILDER_ASSETS:-$bin}/$1" "$(type -P "$1" || true)"; do
    [[ -x $file && $(dirname "$(realpath "$file")") != "$bin" ]] || continue
    suitable "$1" "$file" || continue
    ln -sf "$(realpath "$file")" "$bin/$1"
    return 0
  done
  [[ $1 == etcd || $1 == kube* ]] && ln -sf controlplane "$bin/$1" && suitable "$1" "$bin/$1" # built for another name
}

# build NAME: builds the program.
build() {
  rm -f "$bin/$1"
  case $1 in
    kwok) GOBIN=$bin go install "sigs.k8s.io/kwok/cmd/kwok@$kwok" ;;
    temporal) GOBIN=$bin go install "github.com/temporalio/cli/cmd/temporal@$temporal" ;;
    *) # one binary under five names
      local major minor package=k8s.io/component-base/version
      IFS=. read -r major minor _ <<<"${kubernetes#v}"
      ln -sf controlplane "$bin/$1"
      go build -C dev/controlplane -trimpath -o "$bin/controlplane" \
        -ldflags "-s -w -X $package.gitVersion=$kubernetes -X $package.gitMajor=$major -X $package.gitMinor=$minor" . ;;
  esac
}

mkdir -p "$bin"
number=0
for name in "${all[@]}"; do
  number=$((number + 1))
  if [[ -x $bin/$name ]] && suitable "$name" "$bin/$name"; then continue; fi
  if link "$name"; then
    echo "tools: $number of ${#all[@]}: $name is linked from $(readlink "$bin/$name")"
    continue
  fi
  case $name in kwok) cost="2 minutes" ;; temporal) cost="6 minutes" ;; *) cost="13 minutes, once for all of Kubernetes" ;; esac
  echo "tools: $number of ${#all[@]}: $name is built now, with cold caches about $cost"
  build "$name"
done
