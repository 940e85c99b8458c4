{{/* TLS for sources and for connections to receivers: the gateway's options and the Secrets' files. */}}

{{- define "wallaroo.tlsArgs" -}}
{{- with .Values.tls.sources.secretName }}
- --in-tls-cert=/etc/wallaroo/tls/sources/tls.crt
- --in-tls-key=/etc/wallaroo/tls/sources/tls.key
{{- end }}
{{- with .Values.tls.sources.clientAuthorities }}
- --in-tls-client-ca=/etc/wallaroo/tls/senders/ca.crt
{{- end }}
{{- with .Values.tls.outputs.authorities }}
- --out-tls-ca=/etc/wallaroo/tls/receivers/ca.crt
{{- end }}
{{- with .Values.tls.outputs.secretName }}
- --out-tls-cert=/etc/wallaroo/tls/outputs/tls.crt
- --out-tls-key=/etc/wallaroo/tls/outputs/tls.key
{{- end }}
{{- end }}

{{/* Secrets by mount directory, with the keys that are mounted. */}}
{{- define "wallaroo.tlsSecrets" -}}
{{- $pair := list "tls.crt" "tls.key" -}}
{{- $ca := list "ca.crt" -}}
{{- with .Values.tls -}}
sources: {{ dict "name" .sources.secretName "keys" $pair | toJson }}
senders: {{ dict "name" .sources.clientAuthorities "keys" $ca | toJson }}
receivers: {{ dict "name" .outputs.authorities "keys" $ca | toJson }}
outputs: {{ dict "name" .outputs.secretName "keys" $pair | toJson }}
{{- if $.Values.kafka.enabled }}
brokers: {{ dict "name" .kafka.authorities "keys" $ca | toJson }}
kafka: {{ dict "name" .kafka.secretName "keys" $pair | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{- define "wallaroo.tlsMounts" -}}
{{- range $place, $secret := include "wallaroo.tlsSecrets" . | fromYaml }}
{{- if $secret.name }}
- name: tls-{{ $place }}
  mountPath: /etc/wallaroo/tls/{{ $place }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}

{{- define "wallaroo.tlsVolumes" -}}
{{- range $place, $secret := include "wallaroo.tlsSecrets" . | fromYaml }}
{{- if $secret.name }}
{{ include "wallaroo.secretVolume" (merge (dict "volume" (printf "tls-%s" $place)) $secret) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
A volume with some keys of a Secret, or all of them, readable by the pod's user and group: dict volume,
name, keys.
*/}}
{{- define "wallaroo.secretVolume" -}}
- name: {{ .volume }}
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    {{- with .keys }}
    items:
      {{- range . }}
      - key: {{ . }}
        path: {{ . }}
      {{- end }}
    {{- end }}
{{- end }}
