{{/*
The volume claims, the token and Spark's secret. The claims are separate objects rather than volumeClaimTemplates, so
that an upgrade can enlarge them and that journal and state, which belong together, are kept or deleted
together.
*/}}
{{- define "wallaroo.storage" -}}
{{- $root := . -}}
{{- range $volume := list "journal" "state" }}
{{- $values := index $root.Values.storage $volume }}
{{- if not $values.existingClaim }}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  {{- $annotations := merge (ternary (dict "helm.sh/resource-policy" "keep") (dict) $root.Values.storage.keep) $values.annotations }}
  {{- if eq $volume "state" }}
  {{- $annotations = merge (dict "wallaroo/partitions" (int $root.Values.partitions | toString)) $annotations }}
  {{- end }}
  {{- include "wallaroo.metadata" (dict "root" $root "component" (ternary "gateway" "driver" (eq $volume "journal")) "name" $volume "annotations" $annotations) | nindent 2 }}
spec:
  accessModes:
    {{- toYaml $values.accessModes | nindent 4 }}
  {{- with $values.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ $values.size }}
{{- end }}
{{- end }}
{{- if not .Values.token.existingSecret }}
---
apiVersion: v1
kind: Secret
metadata:
  {{- include "wallaroo.metadata" (dict "root" . "component" "gateway" "name" "token") | nindent 2 }}
type: Opaque
data:
  {{ .Values.token.key }}: {{ include "wallaroo.kept" (dict "root" . "secret" (include "wallaroo.tokenSecret" .) "key" .Values.token.key) }}
{{- end }}
{{- if not .Values.sparkSecret.existingSecret }}
---
apiVersion: v1
kind: Secret
metadata:
  {{- include "wallaroo.metadata" (dict "root" . "component" "driver" "name" "spark") | nindent 2 }}
type: Opaque
data:
  {{ .Values.sparkSecret.key }}: {{ include "wallaroo.kept" (dict "root" . "secret" (include "wallaroo.sparkSecret" .) "key" .Values.sparkSecret.key) }}
{{- end }}
{{- end }}

{{/* What the release's existing Secret contains, or something new: dict root, secret, key. */}}
{{- define "wallaroo.kept" -}}
{{- $secret := lookup "v1" "Secret" .root.Release.Namespace .secret -}}
{{- dig "data" .key "" ($secret | default dict) | default (randAlphaNum 48 | b64enc) -}}
{{- end }}
