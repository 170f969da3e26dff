# What pages take for granted. Hidden blocks call these.

# cluster NAME makes a Cluster of the target staging.
cluster() {
  kubectl create secret generic "$1-kubeconfig" --from-file=kubeconfig=staging.kubeconfig
  kubectl apply -f - <<END
apiVersion: core.convoy.kumodo.io/v1alpha1
kind: Cluster
metadata: {name: $1}
spec:
  connectionMode: agentless
  agentless:
    auth: {type: kubeconfig, kubeconfig: {secretRef: {name: $1-kubeconfig, key: kubeconfig}}}
END
  kubectl wait "cluster/$1" --for=condition=Ready --timeout=1m
}

# sample NAME prints a sample of deploy/samples for the namespace of the page.
sample() {
  sed "s/namespace: .*/namespace: $(kubectl config view --minify -o jsonpath={..namespace})/" "deploy/samples/$1.yaml"
}

# greeting NAME CLUSTER delivers a ConfigMap from a ConfigMap.
greeting() {
  say hello
  kubectl apply -f - <<END
apiVersion: core.convoy.kumodo.io/v1alpha1
kind: Release
metadata: {name: $1}
spec:
  clusterRef: {name: $2}
  source: {configMap: {name: greeting}}
  targetNamespace: $(kubectl config view --minify -o jsonpath={..namespace})
  createNamespace: true
END
  kubectl wait "release/$1" --for=condition=Ready --timeout=1m
}

# say TEXT changes what greeting delivers.
say() {
  kubectl create configmap greeting --dry-run=client -o yaml --from-literal=greeting.yaml="{apiVersion: v1, kind: ConfigMap, metadata: {name: greeting}, data: {text: $1}}" | kubectl apply -f -
}
