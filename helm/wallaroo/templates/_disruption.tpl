{{/* PodDisruptionBudgets, for whoever wants them. */}}
{{- define "wallaroo.disruption" -}}
{{- $root := . -}}
{{- range $component := list "gateway" "driver" "executor" }}
{{- $part := dict "root" $root "component" $component "name" $component }}
{{- with (index $root.Values $component).podDisruptionBudget }}
{{- if .enabled }}
---
apiVersion: {{ ternary "policy/v1" "policy/v1beta1" ($root.Capabilities.APIVersions.Has "policy/v1") }}
kind: PodDisruptionBudget
metadata:
  {{- include "wallaroo.metadata" $part | nindent 2 }}
spec:
  {{- if eq $component "executor" }}
  # a number: the pods of a driver have no controller whose share could be told
  minAvailable: {{ int .minAvailable }}
  {{- else }}
  maxUnavailable: 0
  {{- end }}
  selector:
    matchLabels:
      {{- include "wallaroo.selectorLabels" $part | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
