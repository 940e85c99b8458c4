{{/* Permissions: the driver manages pods and reads one ConfigMap; the other components have none. */}}
{{- define "wallaroo.access" -}}
{{- $root := . -}}
{{- range $component := list "gateway" "driver" "executor" }}
{{- $part := dict "root" $root "component" $component }}
{{- with (index $root.Values $component).serviceAccount }}
{{- if .create }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ include "wallaroo.serviceAccountName" $part }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "wallaroo.labels" $part | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.rbac.create }}
{{- $part := dict "root" . "component" "driver" "name" "driver" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "wallaroo.metadata" $part | nindent 2 }}
rules:
  - apiGroups: [""]
    resources: [pods]
    verbs: [get, list, watch, create, delete, deletecollection]
  - apiGroups: [""]
    resources: [configmaps]
    resourceNames: [{{ include "wallaroo.fullname" . }}-workers]
    verbs: [get, list, watch{{ if and (kindIs "map" .Values.workers) (ne (toString .Values.workers.mode) "report") }}, patch{{ end }}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  {{- include "wallaroo.metadata" $part | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ include "wallaroo.fullname" . }}-driver
subjects:
  - kind: ServiceAccount
    name: {{ include "wallaroo.serviceAccountName" $part }}
    namespace: {{ .Release.Namespace }}
{{- end }}
{{- end }}
