{{/* Topics of Kafka: the application's options, and the files with settings for the gateway. */}}

{{/* Options of the application that name topics and brokers. */}}
{{- define "wallaroo.kafkaOptions" -}}
{{- $options := list -}}
{{- if .Values.kafka.enabled -}}
{{- range $side, $default := dict "sources" "kafka_source" "sinks" "kafka_sink" -}}
{{- range index $.Values.kafka $side -}}
{{- $name := .name | default $default -}}
{{- $brokers := .brokers | default $.Values.kafka.brokers -}}
{{- $options = append $options (printf "--%s_topic=%s" $name .topic) -}}
{{- $options = append $options (printf "--%s_brokers=%s" $name (join "," $brokers)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toYaml $options -}}
{{- end }}

{{/* Settings that are not secret, as the text of a file; empty if there are none. */}}
{{- define "wallaroo.kafkaSettings" -}}
{{- if .Values.kafka.enabled -}}
{{- $settings := dict -}}
{{- with .Values.tls.kafka.authorities -}}
{{- $settings = dict "security.protocol" "SSL" "ssl.ca.location" "/etc/wallaroo/tls/brokers/ca.crt" -}}
{{- end -}}
{{- with .Values.tls.kafka.secretName -}}
{{- $_ := set $settings "ssl.certificate.location" "/etc/wallaroo/tls/kafka/tls.crt" -}}
{{- $_ := set $settings "ssl.key.location" "/etc/wallaroo/tls/kafka/tls.key" -}}
{{- end -}}
{{- range $name, $value := merge (dict) .Values.kafka.settings $settings -}}
{{- printf "%s=%v\n" $name (include "wallaroo.settingText" $value) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* A value as text: helm reads large integers as fractions. */}}
{{- define "wallaroo.settingText" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) -}}{{ int64 . }}{{- else -}}{{ toString . }}{{- end -}}
{{- end }}

{{/* Files with settings, in the order in which they are read, separated by colons. */}}
{{- define "wallaroo.kafkaFiles" -}}
{{- $files := list -}}
{{- if include "wallaroo.kafkaSettings" . -}}
{{- $files = append $files "/etc/wallaroo/kafka-settings/settings" -}}
{{- end -}}
{{- if and .Values.kafka.enabled .Values.kafka.secretName .Values.kafka.secretKey -}}
{{- $files = append $files (printf "/etc/wallaroo/kafka/%s" .Values.kafka.secretKey) -}}
{{- end -}}
{{- join ":" $files -}}
{{- end }}

{{/* The ConfigMap with the settings that are not secret. */}}
{{- define "wallaroo.kafkaConfigMap" -}}
{{- with include "wallaroo.kafkaSettings" . }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "wallaroo.metadata" (dict "root" $ "component" "gateway" "name" "kafka") | nindent 2 }}
data:
  settings: |
    {{- . | nindent 4 }}
{{- end }}
{{- end }}

{{- define "wallaroo.kafkaMounts" -}}
{{- if include "wallaroo.kafkaSettings" . }}
- name: kafka-settings
  mountPath: /etc/wallaroo/kafka-settings
  readOnly: true
{{- end }}
{{- if and .Values.kafka.enabled .Values.kafka.secretName }}
- name: kafka
  mountPath: /etc/wallaroo/kafka
  readOnly: true
{{- end }}
{{- end }}

{{- define "wallaroo.kafkaVolumes" -}}
{{- if include "wallaroo.kafkaSettings" . }}
- name: kafka-settings
  configMap:
    name: {{ include "wallaroo.fullname" . }}-kafka
{{- end }}
{{- if and .Values.kafka.enabled .Values.kafka.secretName }}
{{ include "wallaroo.secretVolume" (dict "volume" "kafka" "name" .Values.kafka.secretName) }}
{{- end }}
{{- end }}
