{{/* Runs new code beside the old, on the messages of the gateway's log. */}}
{{- define "wallaroo.shadow" -}}
{{- if include "wallaroo.hasShadow" . }}
{{- $part := dict "root" . "component" "shadow" "name" "shadow" -}}
{{- $own := .Values.shadow -}}
{{- $args := list "shadow" "/app" "--state-dir=/var/lib/wallaroo/gateway" (printf "--snapshot=%s" (include "wallaroo.stateDir" .)) -}}
{{- $args = append $args (printf "--function-timeout=%v" .Values.functionTimeoutSeconds) -}}
{{- range $own.expect -}}
{{- $args = append $args (printf "--expect=%s" .) -}}
{{- end }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "wallaroo.metadata" $part | nindent 2 }}
spec:
  replicas: {{ ternary 0 1 .Values.stopped }}
  revisionHistoryLimit: 0
  strategy: {type: Recreate}
  selector:
    matchLabels:
      {{- include "wallaroo.selectorLabels" $part | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "wallaroo.podLabels" $part | nindent 8 }}
      {{- with include "wallaroo.kafkaSettings" . }}
      annotations: {wallaroo/kafka-settings: {{ . | quote }}}
      {{- end }}
    spec:
      terminationGracePeriodSeconds: 30
      {{- $component := ternary "gateway" "driver" (empty .Values.storage.state.uri) }}
      serviceAccountName: {{ include "wallaroo.serviceAccountName" (dict "root" . "component" $component) }}
      {{- include "wallaroo.loadingPod" (dict
        "root" . "name" "shadow" "image" (include "wallaroo.shadowImage" .) "resources" $own.resources "args" $args
        "hasState" true "place" $component "affinity" (include "wallaroo.nearLog" . | fromYaml)
        "mounts" (list (dict "name" "journal" "mountPath" "/var/lib/wallaroo/gateway" "readOnly" true))
        "volumes" (list (dict "name" "journal" "persistentVolumeClaim" (dict "claimName" (include "wallaroo.claim" (dict "root" . "volume" "journal")))))
      ) | nindent 6 }}
{{- end }}
{{- end }}

{{/* "true" if new code is to run beside the old. */}}
{{- define "wallaroo.hasShadow" -}}
{{- ternary "true" "" (or .Values.shadow.image.tag .Values.shadow.image.digest | empty | not) -}}
{{- end }}

{{/* Its image. */}}
{{- define "wallaroo.shadowImage" -}}
{{- $image := .Values.shadow.image -}}
{{- $own := dict "repository" ($image.repository | default .Values.image.repository) "tag" $image.tag "digest" $image.digest -}}
{{- include "wallaroo.image" (dict "Values" (dict "image" $own) "Chart" .Chart) -}}
{{- end }}

{{- define "wallaroo.checks.shadow" -}}
{{- $image := .Values.shadow.image -}}
{{- if and $image.tag $image.digest }}
shadow.image.tag and shadow.image.digest are both set, and only the digest would count: leave one of them empty.
{{- end -}}
{{- if and $image.repository (not (include "wallaroo.hasShadow" .)) }}
shadow.image.repository is set, and there is no shadow without shadow.image.tag or shadow.image.digest.
{{- end -}}
{{- if and (include "wallaroo.hasShadow" .) (has "ReadWriteOncePod" .Values.storage.journal.accessModes) }}
storage.journal.accessModes has ReadWriteOncePod, and a shadow reads the log in a pod of its own: take ReadWriteOnce.
{{- end -}}
{{- end }}
