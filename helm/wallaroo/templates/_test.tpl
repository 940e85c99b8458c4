{{/* The pod that `helm test` runs. */}}
{{- define "wallaroo.test" -}}
{{- if .Values.test.enabled }}
{{- $part := dict "root" . "component" "test" -}}
{{- $fullname := include "wallaroo.fullname" . -}}
{{- $sources := dict -}}
{{- range .Values.sources -}}
{{- $_ := set $sources .name (printf "%s-sources:%d" $fullname (int .port)) -}}
{{- end -}}
{{- $receiver := ternary (printf "http://%s-receiver:7981" $fullname) nil (not (empty (include "wallaroo.hasReceiver" .))) -}}
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "test") $part) | nindent 2 }}
data:
  smoke.py: |
    {{- .Subcharts.wallaroo.Files.Get "files/smoke.py" | nindent 4 }}
  settings.json: |
    {{- dict
      "sources" $sources
      "status" (printf "http://%s-gateway:7980/status" $fullname)
      "receiver" $receiver
      "topics" .Values.kafka.enabled
      "messages" .Values.test.messages
      "expect" .Values.test.expect
      "tls" (dict
        "sources" (ternary nil "/etc/wallaroo/tls/sources" (empty .Values.tls.sources.secretName))
        "own" (ternary nil "/etc/wallaroo/tls/own" (empty .Values.test.tlsSecretName))
      )
      "timeout_s" (int .Values.test.timeoutSeconds)
      | toPrettyJson | nindent 4 }}
---
apiVersion: v1
kind: Pod
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "test" "annotations" (dict
    "helm.sh/hook" "test"
    "helm.sh/hook-delete-policy" (ternary "before-hook-creation" "before-hook-creation,hook-succeeded" .Values.test.keepPod)
  )) $part) | nindent 2 }}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  {{- include "wallaroo.anyPod" (dict "root" . "component" "test" "tolerations" .Values.test.tolerations) | nindent 2 }}
  containers:
    - name: test
      image: {{ include "wallaroo.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      command: [python3, -u, /etc/wallaroo/test/smoke.py, /etc/wallaroo/test/settings.json]
      resources:
        requests: {cpu: 50m, memory: 64Mi}
        limits: {memory: 128Mi}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      volumeMounts:
        - name: program
          mountPath: /etc/wallaroo/test
          readOnly: true
        {{- with .Values.tls.sources.secretName }}
        - name: tls-sources
          mountPath: /etc/wallaroo/tls/sources
          readOnly: true
        {{- end }}
        {{- with .Values.test.tlsSecretName }}
        - name: tls-own
          mountPath: /etc/wallaroo/tls/own
          readOnly: true
        {{- end }}
  volumes:
    - name: program
      configMap:
        name: {{ $fullname }}-test
    {{- with .Values.tls.sources.secretName }}
    {{- include "wallaroo.secretVolume" (dict "volume" "tls-sources" "name" . "keys" (list "tls.crt")) | nindent 4 }}
    {{- end }}
    {{- with .Values.test.tlsSecretName }}
    {{- include "wallaroo.secretVolume" (dict "volume" "tls-own" "name" . "keys" (list "tls.crt" "tls.key")) | nindent 4 }}
    {{- end }}
{{- end }}
{{- end }}
