{{/*
The gateway owns the sources' ports, the journal and the connections to the receivers. A new one starts
beside the old one, on the node that has the journal, and takes over once that one has ended.
*/}}
{{- define "wallaroo.gateway" -}}
{{- $part := dict "root" . "component" "gateway" -}}
{{- $values := .Values.gateway -}}
{{- $shows := and .Values.dashboard.enabled .Values.dashboard.tokenSecret -}}
{{- if .Values.sources -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "sources" "annotations" $values.service.annotations) $part) | nindent 2 }}
spec:
  type: {{ $values.service.type }}
  selector:
    {{- include "wallaroo.selectorLabels" $part | nindent 4 }}
  {{- with $values.service.externalTrafficPolicy }}
  externalTrafficPolicy: {{ . }}
  {{- end }}
  {{- with $values.service.loadBalancerClass }}
  loadBalancerClass: {{ . }}
  {{- end }}
  {{- with $values.service.loadBalancerSourceRanges }}
  loadBalancerSourceRanges:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    {{- range .Values.sources }}
    - name: {{ .name }}
      port: {{ int .port }}
      targetPort: {{ .name }}
      protocol: TCP
      {{- with get $values.service.nodePorts .name }}
      nodePort: {{ int . }}
      {{- end }}
    {{- end }}
---
{{ end -}}
{{- if .Values.events -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "events") $part) | nindent 2 }}
spec:
  type: ClusterIP
  selector:
    {{- include "wallaroo.selectorLabels" $part | nindent 4 }}
  ports:
    {{- range .Values.events }}
    - name: {{ .name }}
      port: {{ int .port }}
      targetPort: {{ .name }}
      protocol: TCP
    {{- end }}
---
{{ end -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "gateway") $part) | nindent 2 }}
spec:
  type: ClusterIP
  selector:
    {{- include "wallaroo.selectorLabels" $part | nindent 4 }}
  ports:
    - name: inner
      port: 7900
      targetPort: inner
      protocol: TCP
    - name: chunks
      port: 7901
      targetPort: chunks
      protocol: TCP
    - name: health
      port: 7980
      targetPort: health
      protocol: TCP
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- $checked := dict "wallaroo/checked" (include "wallaroo.checked" .) }}
  {{- include "wallaroo.metadata" (merge (dict "name" "gateway" "annotations" $checked) $part) | nindent 2 }}
spec:
  replicas: {{ ternary 0 1 .Values.stopped }}
  {{- include "wallaroo.replacement" $values.surge | nindent 2 }}
  selector:
    matchLabels:
      {{- include "wallaroo.selectorLabels" $part | nindent 6 }}
  template:
    metadata:
      {{- $kafka := include "wallaroo.kafkaSettings" . }}
      {{- $restarting := ternary (dict "checksum/kafka" (sha256sum $kafka)) dict (not (empty $kafka)) }}
      {{- include "wallaroo.podMetadata" (merge (dict "annotations" $restarting) $part) | nindent 6 }}
    spec:
      {{- include "wallaroo.podSettings" $part | nindent 6 }}
      {{- with $values.extraInitContainers }}
      initContainers:
        {{- include "wallaroo.extraContainers" (dict "root" $ "containers" .) | nindent 8 }}
      {{- end }}
      containers:
        - name: gateway
          image: {{ include "wallaroo.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args:
            - gateway
            {{- include "wallaroo.sharedArgs" . | nindent 12 }}
            - --state-dir=/var/lib/wallaroo/gateway
            - --listen=0.0.0.0:7900
            - --chunks-port=7901
            {{- if .Values.tls.door.secretName }}
            - --listen-tls-cert=/etc/wallaroo/tls/door/tls.crt
            - --listen-tls-key=/etc/wallaroo/tls/door/tls.key
            {{- end }}
            - --health=0.0.0.0:7980
            - --take-over
            - --function-timeout={{ .Values.functionTimeoutSeconds }}
            - --journal-limit-gib={{ $values.journalLimitGiB }}
            - --keep-messages-gib={{ $values.keepMessagesGiB }}
            - --keep-messages-days={{ $values.keepMessagesDays }}
            {{- with $values.archiveDirectory }}
            - {{ printf "--archive=%s" . | quote }}
            {{- end }}
            - --max-connections={{ int $values.maxConnections }}
            - --idle-timeout={{ $values.idleTimeoutSeconds }}
            - --frame-timeout={{ $values.frameTimeoutSeconds }}
            - --dead-letters-mib={{ $values.deadLetters.limitMiB }}
            - --dead-letters-days={{ $values.deadLetters.days }}
            {{- if $shows }}
            - --histories
            {{- end }}
            {{- if .Values.skipDamaged }}
            - --skip-damaged
            {{- end }}
            - --on-error={{ .Values.onError.all }}
            {{- range $source, $policy := .Values.onError.sources }}
            - {{ printf "--on-error=%s=%s" $source $policy | quote }}
            {{- end }}
            {{- with include "wallaroo.tlsArgs" . | trim }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with include "wallaroo.applicationTail" . }}
            {{- . | nindent 12 }}
            {{- end }}
          {{- $files := include "wallaroo.kafkaFiles" . }}
          {{- $store := include "wallaroo.storeEnv" (list . (include "wallaroo.archiveIsStored" .)) }}
          {{- if or $files $store $values.extraEnv }}
          env:
            {{- with $store }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $files }}
            - name: WALLAROO_KAFKA_SETTINGS
              value: {{ . }}
            {{- end }}
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- end }}
          ports:
            {{- range concat .Values.sources .Values.events }}
            - name: {{ .name }}
              containerPort: {{ int .port }}
              protocol: TCP
            {{- end }}
            - name: inner
              containerPort: 7900
              protocol: TCP
            - name: chunks
              containerPort: 7901
              protocol: TCP
            - name: health
              containerPort: 7980
              protocol: TCP
          {{- include "wallaroo.probes" $values | nindent 10 }}
          resources:
            {{- $mib := include "wallaroo.memory" (list . 640 24 0) | int64 }}
            {{- if .Values.kafka.enabled }}
            {{- $mib = div (mul 4120 (int64 .Values.kafka.maxBatchBytes)) 1048576 | add $mib }}
            {{- end }}
            {{- if $shows }}
            {{- $mib = add $mib 512 }}
            {{- end }}
            {{- $limit := printf "%dMi" $mib }}
            {{- merge (dict) $values.resources (dict "limits" (dict "memory" $limit)) | toYaml | nindent 12 }}
          securityContext:
            {{- toYaml .Values.securityContext | nindent 12 }}
          terminationMessagePolicy: FallbackToLogsOnError
          volumeMounts:
            - name: journal
              mountPath: /var/lib/wallaroo/gateway
            {{- with include "wallaroo.tlsMounts" . | trim }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with include "wallaroo.kafkaMounts" . | trim }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- include "wallaroo.volumeMounts" $part | nindent 12 }}
        {{- with $values.extraContainers }}
        {{- include "wallaroo.extraContainers" (dict "root" $ "containers" .) | nindent 8 }}
        {{- end }}
      volumes:
        - name: journal
          persistentVolumeClaim:
            claimName: {{ include "wallaroo.claim" (dict "root" . "volume" "journal") }}
        {{- with include "wallaroo.tlsVolumes" . | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- with include "wallaroo.kafkaVolumes" . | trim }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- include "wallaroo.volumes" $part | nindent 8 }}
{{- end }}
