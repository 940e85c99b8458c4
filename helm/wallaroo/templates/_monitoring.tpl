{{/* Objects for the Prometheus operator and for Grafana. */}}
{{- define "wallaroo.monitoring" -}}
{{- if .Values.serviceMonitor.enabled }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  {{- $labels := merge (include "wallaroo.labels" (dict "root" . "component" "monitoring") | fromYaml) .Values.serviceMonitor.labels }}
  name: {{ include "wallaroo.fullname" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- toYaml $labels | nindent 4 }}
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ .Chart.Name }}
      app.kubernetes.io/instance: {{ .Release.Name }}
  namespaceSelector:
    matchNames: [{{ .Release.Namespace }}]
  endpoints:
    - port: health
      path: /metrics
      interval: {{ .Values.serviceMonitor.interval }}
{{- end }}
{{- if .Values.prometheusRule.enabled }}
{{- $scope := printf "namespace=%q,service=~%q" .Release.Namespace (printf "%s-(gateway|driver)" (include "wallaroo.fullname" .)) }}
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  {{- $labels := merge (include "wallaroo.labels" (dict "root" . "component" "monitoring") | fromYaml) .Values.prometheusRule.labels }}
  name: {{ include "wallaroo.fullname" . }}
  namespace: {{ .Release.Namespace }}
  labels:
    {{- toYaml $labels | nindent 4 }}
spec:
  {{- $alerts := .Subcharts.wallaroo.Files.Get "files/alerts.yaml" | replace "$scope" $scope | fromYaml }}
  {{- with .Values.prometheusRule.runbooks }}
  {{- range (first $alerts.groups).rules }}
  {{- $_ := set .annotations "runbook_url" (printf "%s#%s" $.Values.prometheusRule.runbooks (lower .alert)) }}
  {{- end }}
  {{- end }}
  {{- toYaml $alerts | nindent 2 }}
{{- end }}
{{- if .Values.grafanaDashboard.enabled }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  {{- $labels := merge (include "wallaroo.labels" (dict "root" . "component" "monitoring") | fromYaml) .Values.grafanaDashboard.labels }}
  name: {{ include "wallaroo.fullname" . }}-grafana
  namespace: {{ .Release.Namespace }}
  labels:
    {{- toYaml $labels | nindent 4 }}
data:
  wallaroo.json: |
    {{- .Subcharts.wallaroo.Files.Get "files/grafana.json" | nindent 4 }}
{{- end }}
{{- end }}
