{{- define "shop.name" -}}
{{ .Chart.Name }}-{{ .Values.global.region }}
{{- end }}
{{- define "shop.labels" }}
app: {{ template "shop.name" . }}
chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}
