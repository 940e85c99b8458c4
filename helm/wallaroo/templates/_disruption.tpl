{{/* PodDisruptionBudgets, if enabled. */}}
{{- define "wallaroo.disruption" -}}
{{- $root := . -}}
{{- range $component := list "gateway" "driver" "executor" }}
{{- $part := dict "root" $root "component" $component "name" $component }}
{{- with (index $root.Values $component).podDisruptionBudget }}
{{- if .enabled }}
---
apiVersion: {{ include "wallaroo.disruption.api" $root }}
kind: PodDisruptionBudget
metadata:
  {{- include "wallaroo.metadata" $part | nindent 2 }}
spec:
  {{- if eq $component "executor" }}
  # an absolute number: the executors have no controller that a percentage could refer to
  minAvailable: {{ int .minAvailable }}
  {{- else }}
  maxUnavailable: {{ int .maxUnavailable }}
  {{- end }}
  {{- if semverCompare ">=1.27.0-0" (include "wallaroo.kubeVersion" $root) }}
  # a pod that is not ready must not block a drain
  unhealthyPodEvictionPolicy: AlwaysAllow
  {{- end }}
  selector:
    matchLabels:
      {{- include "wallaroo.selectorLabels" $part | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Checks the version, too: without a cluster, helm reports policy/v1 whatever --kube-version says. */}}
{{- define "wallaroo.disruption.api" -}}
{{- $old := semverCompare ">=1.20.0-0 <1.21.0-0" (include "wallaroo.kubeVersion" .) -}}
{{- ternary "policy/v1" "policy/v1beta1" (not (or $old (empty (include "wallaroo.hasApi" (dict "root" . "api" "policy/v1"))))) -}}
{{- end }}
