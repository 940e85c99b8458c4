{{/* TLS on the ports of sources, and to receivers: Secrets, and what the gateway finds in them. */}}

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

{{/* Secrets by their directory, with the keys that are read. */}}
{{- define "wallaroo.tlsSecrets" -}}
{{- $pair := list "tls.crt" "tls.key" -}}
{{- $ca := list "ca.crt" -}}
{{- with .Values.tls -}}
sources: {{ dict "name" .sources.secretName "keys" $pair | toJson }}
senders: {{ dict "name" .sources.clientAuthorities "keys" $ca | toJson }}
receivers: {{ dict "name" .outputs.authorities "keys" $ca | toJson }}
outputs: {{ dict "name" .outputs.secretName "keys" $pair | toJson }}
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

{{/* A volume of some keys of a Secret, for the owner and the group of the pod: dict volume, name, keys. */}}
{{- define "wallaroo.secretVolume" -}}
- name: {{ .volume }}
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    items:
      {{- range .keys }}
      - key: {{ . }}
        path: {{ . }}
      {{- end }}
{{- end }}
