{{/*
All objects of a Wallaroo application. An application's chart includes only this and, in NOTES.txt,
`wallaroo.notes`.
*/}}
{{- define "wallaroo.application" -}}
{{- include "wallaroo.checks" . }}
{{- include "wallaroo.access" . }}
{{- include "wallaroo.storage" . }}
{{- include "wallaroo.kafkaConfigMap" . }}
---
{{ include "wallaroo.gateway" . }}
---
{{ include "wallaroo.driver" . }}
{{- include "wallaroo.snapshots" . }}
{{- include "wallaroo.shadow" . }}
{{- include "wallaroo.receiver" . }}
{{- include "wallaroo.disruption" . }}
{{- include "wallaroo.network" . }}
{{- include "wallaroo.routes" . }}
{{- include "wallaroo.monitoring" . }}
{{- include "wallaroo.upgradeCheck" . }}
---
{{ include "wallaroo.test" . }}
{{- end }}
