{{/* One Weft per cluster: queues and nodes are the cluster's. So names are fixed. */}}
{{- define "weft.name" -}}
weft-operator
{{- end }}

{{- define "weft.selector" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/component: operator
{{- end }}

{{- define "weft.labels" -}}
{{ include "weft.selector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "weft.probeSelector" -}}
app.kubernetes.io/name: weft
app.kubernetes.io/component: probes
{{- end }}

{{- define "weft.probeLabels" -}}
{{ include "weft.probeSelector" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Tells the Service for metrics from the one for reports. */}}
{{- define "weft.metricsLabel" -}}
weft.dev/serves: metrics
{{- end }}

{{- define "weft.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Of pods that stand for nodes that are missing. */}}
{{- define "weft.placeholderClass" -}}
weft-placeholder
{{- end }}

{{- define "weft.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ include "weft.name" . }}
{{- end }}

{{/* The Secret with the certificate for reports; empty where reports are not encrypted. */}}
{{- define "weft.tlsSecret" -}}
{{- with .Values.reports.tls }}
{{- .secretName | default (.generate | ternary (printf "%s-reports" (include "weft.name" $)) "") -}}
{{- end }}
{{- end }}

{{- define "weft.reportUrl" -}}
{{- $scheme := include "weft.tlsSecret" . | empty | ternary "http" "https" -}}
{{- $host := printf "%s.%s.svc" (include "weft.name" .) .Release.Namespace -}}
{{- .Values.reports.url | default (printf "%s://%s:%v" $scheme $host .Values.reports.port) -}}
{{- end }}

{{- define "weft.serviceAccountSubject" -}}
- kind: ServiceAccount
  name: {{ include "weft.name" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{- define "weft.groupSubjects" -}}
{{- range . }}
- apiGroup: rbac.authorization.k8s.io
  kind: Group
  name: {{ . | quote }}
{{- end }}
{{- end }}
