{{/* What a cluster is and has. Tests replace these templates. */}}

{{- define "wallaroo.kubeVersion" -}}
{{- .Capabilities.KubeVersion.Version -}}
{{- end }}

{{/* "true" if the cluster serves an API: dict root, api. */}}
{{- define "wallaroo.hasApi" -}}
{{- if .root.Capabilities.APIVersions.Has .api -}}true{{- end -}}
{{- end }}

{{/* An object of the release as it exists in the cluster, or {}: dict root, api, kind, name. */}}
{{- define "wallaroo.existing" -}}
{{- $name := printf "%s-%s" (include "wallaroo.fullname" .root) .name -}}
{{- lookup .api .kind .root.Release.Namespace $name | default dict | toJson -}}
{{- end }}
