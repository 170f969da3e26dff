package main

import (
	"fmt"
	"strings"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"kumodo.io/convoy/internal/render"
)

// The kinds of renders.
const (
	kindPlain     = "plain"
	kindKustomize = "kustomize"
	kindHelm      = "helm"

	renderKubernetes = "v1.37.2"
	objectsPerFile   = 100
)

// deployment is an object of about a kilobyte, with the text tag where its version is.
func deployment(i int, tag string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-%[1]d
  labels: {app: web, number: "%[1]d"}
spec:
  replicas: 2
  selector: {matchLabels: {app: web, number: "%[1]d"}}
  template:
    metadata: {labels: {app: web, number: "%[1]d"}}
    spec:
      containers:
      - name: web
        image: example.test/web:%[2]s
        ports: [{name: http, containerPort: 8080, protocol: TCP}]
        env: [{name: NUMBER, value: "%[1]d"}, {name: MODE, value: production}]
        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
        readinessProbe: {httpGet: {path: /ready, port: http}, periodSeconds: 5}
        livenessProbe: {httpGet: {path: /live, port: http}, periodSeconds: 10}
        volumeMounts: [{name: data, mountPath: /data}]
      volumes: [{name: data, emptyDir: {}}]
`, i, tag)
}

func renderFiles(kind string, objects int) map[string][]byte {
	files, folder, tag := map[string][]byte{}, "", "1"
	if kind == kindHelm {
		folder, tag = "templates/", "{{ .Values.tag }}"
		files["Chart.yaml"] = []byte("apiVersion: v2\nname: web\nversion: 1.0.0\n")
		files["values.yaml"] = []byte("tag: \"1\"\n")
	}
	resources := []string{}
	for first := 0; first < objects; first += objectsPerFile {
		var docs []string
		for i := first; i < min(objects, first+objectsPerFile); i++ {
			docs = append(docs, deployment(i, tag))
		}
		name := fmt.Sprintf("%sweb-%05d.yaml", folder, first)
		resources = append(resources, name)
		files[name] = []byte(strings.Join(docs, "---\n"))
	}
	if kind == kindKustomize {
		files["kustomization.yaml"] = []byte("namePrefix: prod-\ncommonAnnotations: {owner: web}\nresources: [" + strings.Join(resources, ", ") + "]\n")
	}
	return files
}

// theirHelm is what Helm's engine takes, and a decode of what it gives.
func theirHelm(in render.Input) (int, error) {
	var files []*archive.BufferedFile
	for name, content := range in.Files {
		files = append(files, &archive.BufferedFile{Name: name, Data: content})
	}
	chart, err := loader.LoadFiles(files)
	if err != nil {
		return 0, err
	}
	caps := *common.DefaultCapabilities
	version, err := common.ParseKubeVersion(renderKubernetes)
	if err != nil {
		return 0, err
	}
	caps.KubeVersion = *version
	values, err := util.ToRenderValues(chart, in.Helm.Values, common.ReleaseOptions{Name: "app", Namespace: "web", Revision: 1, IsInstall: true}, &caps)
	if err != nil {
		return 0, err
	}
	texts, err := engine.Render(chart, values)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, text := range texts {
		found, err := decodeAll([]byte(text))
		if err != nil {
			return 0, err
		}
		n += found
	}
	return n, nil
}

// theirKustomize is what kustomize takes.
func theirKustomize(in render.Input) (int, error) {
	disk := filesys.MakeFsInMemory()
	for name, content := range in.Files {
		if err := disk.WriteFile("/app/"+name, content); err != nil {
			return 0, err
		}
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/app")
	if err != nil {
		return 0, err
	}
	return built.Size(), nil
}
