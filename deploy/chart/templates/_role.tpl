{{/* What the three roles have in common. Each is called with (dict "role" NAME "root" $). */}}

{{- define "convoy.labels" -}}
app.kubernetes.io/name: convoy
app.kubernetes.io/part-of: convoy
{{- end }}

{{- define "convoy.identity" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: convoy-{{ .role }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "convoy.labels" . | nindent 4 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: convoy-{{ .role }}
  labels:
    {{- include "convoy.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: convoy-{{ .role }}
subjects:
- kind: ServiceAccount
  name: convoy-{{ .role }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "convoy.deployment" -}}
{{- $values := index .root.Values .role -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: convoy-{{ .role }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "convoy.labels" . | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
spec:
  replicas: {{ $values.replicas }}
  # Two generations at once are safe, and what is under way goes on during an upgrade.
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  selector:
    matchLabels:
      app.kubernetes.io/name: convoy
      app.kubernetes.io/component: {{ .role }}
  template:
    metadata:
      labels:
        {{- include "convoy.labels" . | nindent 8 }}
        app.kubernetes.io/component: {{ .role }}
      {{- with .root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: convoy-{{ .role }}
      terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 6 }}
      {{- end }}
      containers:
      - name: convoy
        image: {{ .root.Values.image }}
        imagePullPolicy: {{ .root.Values.imagePullPolicy }}
        args:
        - run
        - --roles={{ .role }}
        {{- if eq .role "watcher" }}
        - --leader-elect
        {{- if $values.webhooks.enabled }}
        - --webhook-address=:9292
        {{- end }}
        {{- end }}
        {{- range concat .root.Values.extraArgs $values.extraArgs }}
        - {{ . | quote }}
        {{- end }}
        env:
        {{- include "convoy.temporal.env" .root.Values.temporal | nindent 8 }}
        {{- if ne .role "watcher" }}
        {{- with include "convoy.temporal.version" .root.Values }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- end }}
        {{- with .root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        ports:
        - {name: metrics, containerPort: 8080}
        - {name: probes, containerPort: 8081}
        {{- if and (eq .role "watcher") $values.webhooks.enabled }}
        - {name: webhooks, containerPort: 9292}
        {{- end }}
        livenessProbe:
          httpGet: {path: /healthz, port: probes}
          initialDelaySeconds: 10
          periodSeconds: 20
        # Not ready: Temporal does not answer or serves another hub; of workers and observers also: the CRDs are older, or their version has no work yet.
        readinessProbe:
          httpGet: {path: /readyz, port: probes}
          periodSeconds: 5
          timeoutSeconds: 3
        {{- with $values.resources }}
        resources:
          {{- toYaml . | nindent 10 }}
        {{- end }}
        # No folder is written to, not even /tmp.
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        {{- with include "convoy.temporal.mounts" .root.Values.temporal }}
        volumeMounts:
        {{- . | nindent 8 }}
        {{- end }}
      {{- with include "convoy.temporal.volumes" .root.Values.temporal }}
      volumes:
      {{- . | nindent 6 }}
      {{- end }}
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: convoy
            app.kubernetes.io/component: {{ .role }}
      {{- with .root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 6 }}
      {{- end }}
      {{- with .root.Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: convoy-{{ .role }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "convoy.labels" . | nindent 4 }}
spec:
  maxUnavailable: 1
  # While Temporal is away no pod is ready, which must not keep nodes from being drained.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      app.kubernetes.io/name: convoy
      app.kubernetes.io/component: {{ .role }}
{{- end }}
