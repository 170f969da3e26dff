{{/* How to reach Temporal, by the variables that the Temporal CLI reads too. Each is called with .Values.temporal. */}}

{{- define "convoy.temporal.env" -}}
- name: TEMPORAL_ADDRESS
  value: {{ .address | quote }}
- name: TEMPORAL_NAMESPACE
  value: {{ .namespace | quote }}
{{- with .apiKeySecret.name }}
- name: TEMPORAL_API_KEY
  valueFrom:
    secretKeyRef: {name: {{ . }}, key: {{ $.apiKeySecret.key }}}
{{- end }}
{{- if .tls.enabled }}
- name: TEMPORAL_TLS
  value: "true"
{{- with .tls.serverName }}
- name: TEMPORAL_TLS_SERVER_NAME
  value: {{ . | quote }}
{{- end }}
{{- if .tls.caSecret.name }}
- name: TEMPORAL_TLS_SERVER_CA_CERT_PATH
  value: /etc/temporal/ca/{{ .tls.caSecret.key }}
{{- end }}
{{- if .tls.clientSecret.name }}
- name: TEMPORAL_TLS_CLIENT_CERT_PATH
  value: /etc/temporal/client/tls.crt
- name: TEMPORAL_TLS_CLIENT_KEY_PATH
  value: /etc/temporal/client/tls.key
{{- end }}
{{- else if or .tls.serverName .tls.caSecret.name .tls.clientSecret.name }}
{{- fail "temporal.tls has settings but is not enabled: set temporal.tls.enabled" }}
{{- end }}
{{- end }}

{{/* Which version of a Worker Deployment the workers work as. Called with .Values. */}}

{{- define "convoy.temporal.version" -}}
{{- with .temporal.deployment -}}
{{- if .name -}}
{{- $build := .buildID | default (regexFind ":[^:/]+$" $.image | trimPrefix ":") -}}
{{- if or (not $build) (and (not .buildID) (eq $build "latest")) }}
{{- fail (printf "temporal.deployment: the tag of the image %s does not tell builds apart: give it another tag, or set temporal.deployment.buildID" $.image) }}
{{- end -}}
- name: TEMPORAL_DEPLOYMENT_NAME
  value: {{ .name | quote }}
- name: TEMPORAL_WORKER_BUILD_ID
  value: {{ $build | quote }}
{{- else if .buildID }}
{{- fail "temporal.deployment.buildID is set, and temporal.deployment.name is not" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "convoy.temporal.mounts" -}}
{{- if .tls.caSecret.name -}}
- {name: temporal-ca, mountPath: /etc/temporal/ca, readOnly: true}
{{ end }}
{{- if .tls.clientSecret.name -}}
- {name: temporal-client, mountPath: /etc/temporal/client, readOnly: true}
{{- end }}
{{- end }}

{{- define "convoy.temporal.volumes" -}}
{{- with .tls.caSecret.name -}}
- name: temporal-ca
  secret: {secretName: {{ . }}}
{{ end }}
{{- with .tls.clientSecret.name -}}
- name: temporal-client
  secret: {secretName: {{ . }}}
{{- end }}
{{- end }}
