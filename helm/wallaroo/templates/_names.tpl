{{/* Names, labels and other short texts. All take the chart's root context, or a dict that has it. */}}

{{/* Name of all objects: the release's, followed by the chart's unless it contains it already. */}}
{{- define "wallaroo.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name -}}
{{- end -}}
{{- end }}

{{/* Labels that never change during the life of a release: dict root, component. */}}
{{- define "wallaroo.selectorLabels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of an object: dict root, component. */}}
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
Labels of a pod, without those that change with the chart's version: they would restart the pod
unnecessarily. dict root, component.
*/}}
{{- define "wallaroo.podLabels" -}}
{{- $labels := merge (include "wallaroo.selectorLabels" . | fromYaml) (dict "app.kubernetes.io/part-of" "wallaroo") -}}
{{- $own := (index .root.Values .component | default dict).podLabels | default dict -}}
{{- merge $labels $own .root.Values.commonLabels | toYaml -}}
{{- end }}

{{/* Metadata of an object: dict root, component, name (suffix of the full name). */}}
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

{{/* Name of a component's ServiceAccount: dict root, component. */}}
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

{{- define "wallaroo.sparkSecret" -}}
{{- .Values.sparkSecret.existingSecret | default (printf "%s-spark" (include "wallaroo.fullname" .)) -}}
{{- end }}

{{/* Bounds of the number of workers, in JSON; they are equal if it is fixed. */}}
{{- define "wallaroo.workers" -}}
{{- $workers := .Values.workers -}}
{{- ternary $workers (dict "min" $workers "max" $workers) (kindIs "map" $workers) | toJson -}}
{{- end }}

{{/* Name of a volume claim: dict root, volume (journal or state). */}}
{{- define "wallaroo.claim" -}}
{{- (index .root.Values.storage .volume).existingClaim | default (printf "%s-%s" (include "wallaroo.fullname" .root) .volume) -}}
{{- end }}

{{/* "true" if the chart adds a receiver, for trying things out. */}}
{{- define "wallaroo.hasReceiver" -}}
{{- if and (not .Values.outputs) .Values.receiver.ports -}}true{{- end -}}
{{- end }}

{{/* Addresses of the outputs, separated by commas; by default those of the chart's own receiver. */}}
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

{{/* Options with the addresses of sources and outputs. */}}
{{- define "wallaroo.addresses" -}}
{{- $sources := list -}}
{{- range .Values.sources -}}
{{- $sources = append $sources (printf "%s@0.0.0.0:%v" .name (int .port)) -}}
{{- end -}}
{{- with $sources -}}
- --in={{ join "," . }}
{{ end -}}
{{- with include "wallaroo.outputs" . -}}
- --out={{ . }}
{{ end -}}
{{- end }}

{{/* Arguments that all commands share: the application, its addresses and the log level. */}}
{{- define "wallaroo.sharedArgs" -}}
- /app
{{- with include "wallaroo.addresses" . | trim }}
{{ . }}
{{- end }}
- --max-frame={{ int .Values.maxFrameBytes }}
- --log-level={{ .Values.logLevel }}
- --token-file=/etc/wallaroo/token/token
{{- end }}

{{/* The application's own arguments, which come last: topics, then those of `args`. */}}
{{- define "wallaroo.applicationTail" -}}
{{- $topics := include "wallaroo.kafkaOptions" . | fromYamlArray -}}
{{- with concat $topics .Values.args -}}
- --
{{- range . }}
- {{ toString . | quote }}
{{- end }}
{{- end }}
{{- end }}
