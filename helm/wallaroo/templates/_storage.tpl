{{/* Where the state is, as an option. */}}
{{- define "wallaroo.stateDir" -}}
{{- .Values.storage.state.uri | default "/var/lib/wallaroo/state" -}}
{{- end }}

{{/* Mount of its volume, and the volume; nothing if it is on an object store. */}}
{{- define "wallaroo.stateMount" -}}
{{- if not .Values.storage.state.uri -}}
- name: state
  mountPath: /var/lib/wallaroo/state
{{ end -}}
{{- end }}

{{- define "wallaroo.stateVolume" -}}
{{- if not .Values.storage.state.uri -}}
- name: state
  persistentVolumeClaim:
    claimName: {{ include "wallaroo.claim" (dict "root" . "volume" "state") }}
{{ end -}}
{{- end }}

{{/* "true" if the archive is on an object store. */}}
{{- define "wallaroo.archiveIsStored" -}}
{{- if hasPrefix "s3a://" .Values.gateway.archiveDirectory -}}true{{- end -}}
{{- end }}

{{/* Environment variables with the object store, for a pod that uses it: list root, whether it does. */}}
{{- define "wallaroo.storeEnv" -}}
{{- $state := (index . 0).Values.storage.state -}}
{{- if index . 1 -}}
{{- with $state.endpoint -}}
- name: AWS_ENDPOINT_URL_S3
  value: {{ . | quote }}
{{ end -}}
{{- with $state.region -}}
- name: AWS_REGION
  value: {{ . | quote }}
{{ end -}}
{{- with $state.credentialsSecret -}}
{{- range $name := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" -}}
- name: {{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $state.credentialsSecret }}, key: {{ $name }}}}
{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* "true" if only the node of the driver has the state. */}}
{{- define "wallaroo.isOnOneNode" -}}
{{- $state := .Values.storage.state -}}
{{- if not (or $state.uri (has "ReadWriteMany" $state.accessModes)) -}}true{{- end -}}
{{- end }}

{{/*
The volume claims, the token and Spark's secret. The claims are separate objects rather than volumeClaimTemplates, so
that an upgrade can enlarge them and that journal and state, which belong together, are kept or deleted
together.
*/}}
{{- define "wallaroo.storage" -}}
{{- $root := . -}}
{{- range $volume := list "journal" "state" }}
{{- $values := index $root.Values.storage $volume }}
{{- if not (or $values.existingClaim $values.uri) }}
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
