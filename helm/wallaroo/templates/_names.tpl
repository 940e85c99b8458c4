{{/* Names, labels and other short texts. All take the chart's root context, or a dict with it. */}}

{{/* Name of all objects: the release's, with the chart's behind it unless it says it already. */}}
{{- define "wallaroo.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name -}}
{{- end -}}
{{- end }}

{{/* What never changes in the life of a release: dict root, component. */}}
{{- define "wallaroo.selectorLabels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* dict root, component. */}}
{{- define "wallaroo.labels" -}}
{{- with .root.Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
{{- include "wallaroo.selectorLabels" . }}
app.kubernetes.io/part-of: wallaroo
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/*
Labels of a pod: without those that an upgrade of the chart changes, for they would restart the pod
for nothing. dict root, component.
*/}}
{{- define "wallaroo.podLabels" -}}
{{- $labels := merge (include "wallaroo.selectorLabels" . | fromYaml) (dict "app.kubernetes.io/part-of" "wallaroo") -}}
{{- $own := (index .root.Values .component | default dict).podLabels | default dict -}}
{{- merge $labels $own .root.Values.commonLabels | toYaml -}}
{{- end }}

{{/* Metadata of an object: dict root, component, name (what stands behind the full name). */}}
{{- define "wallaroo.metadata" -}}
name: {{ include "wallaroo.fullname" .root }}{{ with .name }}-{{ . }}{{ end }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "wallaroo.labels" . | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "wallaroo.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (toString (.tag | default $.Chart.AppVersion)) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Name of the ServiceAccount of a component: dict root, component. */}}
{{- define "wallaroo.serviceAccountName" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- $own := printf "%s-%s" (include "wallaroo.fullname" .root) .component -}}
{{- if $account.create -}}
{{- $account.name | default $own -}}
{{- else -}}
{{- $account.name | default "default" -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.tokenSecret" -}}
{{- .Values.token.existingSecret | default (printf "%s-token" (include "wallaroo.fullname" .)) -}}
{{- end }}

{{/* Name of a volume claim: dict root, volume (journal or state). */}}
{{- define "wallaroo.claim" -}}
{{- (index .root.Values.storage .volume).existingClaim | default (printf "%s-%s" (include "wallaroo.fullname" .root) .volume) -}}
{{- end }}

{{/* Where outputs go, separated by commas: to the receiver that comes along, if nowhere else. */}}
{{- define "wallaroo.outputs" -}}
{{- if .Values.outputs -}}
{{- join "," .Values.outputs -}}
{{- else -}}
{{- $addresses := list -}}
{{- range .Values.receiver.ports -}}
{{- $addresses = append $addresses (printf "%s-receiver:%v" (include "wallaroo.fullname" $) .) -}}
{{- end -}}
{{- join "," $addresses -}}
{{- end -}}
{{- end }}

{{/* What all that runs the application must have alike: itself, its addresses, how to log. */}}
{{- define "wallaroo.sharedArgs" -}}
{{- $sources := list -}}
{{- range .Values.sources -}}
{{- $sources = append $sources (printf "%s@0.0.0.0:%v" .name (int .port)) -}}
{{- end -}}
- /app
- --in={{ join "," $sources }}
- --out={{ include "wallaroo.outputs" . }}
- --max-frame={{ int .Values.maxFrameBytes }}
- --log-level={{ .Values.logLevel }}
- --token-file=/etc/wallaroo/token/token
{{- end }}

{{/* The application's own arguments, behind all others. */}}
{{- define "wallaroo.applicationTail" -}}
{{- with .Values.args -}}
- --
{{- range . }}
- {{ toString . | quote }}
{{- end }}
{{- end }}
{{- end }}
