{{/*
A Wallaroo application: every object of it. A chart's templates consist of this, `wallaroo.test`
and, in NOTES.txt, `wallaroo.notes`.
*/}}
{{- define "wallaroo.application" -}}
{{- include "wallaroo.checks" . }}
{{- include "wallaroo.access" . }}
{{- include "wallaroo.storage" . }}
---
{{ include "wallaroo.gateway" . }}
---
{{ include "wallaroo.driver" . }}
{{- include "wallaroo.receiver" . }}
{{- include "wallaroo.disruption" . }}
{{- include "wallaroo.network" . }}
{{- include "wallaroo.monitoring" . }}
---
{{ include "wallaroo.test" . }}
{{- end }}
