{{/*
The driver runs the query and starts the executors. A new one starts beside the old one, and takes over
from it; one that is still alive on a lost node is fenced off.
*/}}
{{- define "wallaroo.driver" -}}
{{- $part := dict "root" . "component" "driver" -}}
{{- $values := .Values.driver -}}
{{- $fullname := include "wallaroo.fullname" . -}}
{{- $template := include "wallaroo.executorTemplate" . -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "driver") $part) | nindent 2 }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    {{- include "wallaroo.selectorLabels" $part | nindent 4 }}
  ports:
    - name: driver
      port: 7078
      targetPort: driver
      protocol: TCP
    - name: blocks
      port: 7079
      targetPort: blocks
      protocol: TCP
    - name: health
      port: 7980
      targetPort: health
      protocol: TCP
{{- if .Values.dashboard.enabled }}
---
apiVersion: v1
kind: Service
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "dashboard" "annotations" .Values.dashboard.service.annotations) $part) | nindent 2 }}
spec:
  type: {{ .Values.dashboard.service.type }}
  selector:
    {{- include "wallaroo.selectorLabels" $part | nindent 4 }}
  ports:
    - name: dashboard
      port: {{ int .Values.dashboard.service.port }}
      targetPort: dashboard
      protocol: TCP
{{- end }}
---
# Watched by the driver: changing `workers` changes no other object.
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "workers" "component" "workers") $part) | nindent 2 }}
data:
  {{- if kindIs "map" .Values.workers }}
  # the driver adds `current`, the number that the load needs
  min: {{ int .Values.workers.min | quote }}
  max: {{ int .Values.workers.max | quote }}
  mode: {{ .Values.workers.mode | default "scale" }}
  upAfterSeconds: {{ int (.Values.workers.upAfterSeconds | default 30) | quote }}
  downAfterSeconds: {{ int (.Values.workers.downAfterSeconds | default 300) | quote }}
  {{- else }}
  workers: {{ int .Values.workers | quote }}
  {{- end }}
  partitions: {{ int .Values.partitions | quote }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "executor" "component" "executor") $part) | nindent 2 }}
data:
  pod.yaml: |
    {{- $template | nindent 4 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  {{- include "wallaroo.metadata" (merge (dict "name" "driver") $part) | nindent 2 }}
spec:
  replicas: {{ ternary 0 1 .Values.stopped }}
  {{- include "wallaroo.replacement" (include "wallaroo.takesOver" .) | nindent 2 }}
  selector:
    matchLabels:
      {{- include "wallaroo.selectorLabels" $part | nindent 6 }}
  template:
    metadata:
      {{- include "wallaroo.podMetadata" (merge (dict "annotations" (dict "checksum/executor" (sha256sum $template))) $part) | nindent 6 }}
    spec:
      {{- include "wallaroo.podSettings" (merge (dict "token" true) $part) | nindent 6 }}
      {{- if or $values.extraInitContainers .Values.repartition }}
      initContainers:
        {{- with $values.extraInitContainers }}
        {{- include "wallaroo.extraContainers" (dict "root" $ "containers" .) | nindent 8 }}
        {{- end }}
        {{- if .Values.repartition }}
        - name: repartition
          image: {{ include "wallaroo.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args:
            - repartition
            {{- include "wallaroo.sharedArgs" . | nindent 12 }}
            {{- include "wallaroo.engineArgs" . | nindent 12 }}
            {{- with include "wallaroo.applicationTail" . }}
            {{- . | nindent 12 }}
            {{- end }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- toYaml .Values.securityContext | nindent 12 }}
          terminationMessagePolicy: FallbackToLogsOnError
          volumeMounts:
            {{- include "wallaroo.stateMount" . | nindent 12 }}
            {{- include "wallaroo.volumeMounts" $part | nindent 12 }}
        {{- end }}
      {{- end }}
      containers:
        - name: driver
          image: {{ include "wallaroo.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args:
            - driver
            {{- include "wallaroo.sharedArgs" . | nindent 12 }}
            {{- include "wallaroo.engineArgs" . | nindent 12 }}
            - --state-memory-gib={{ .Values.stateMemoryGiB }}
            - --workers-from={{ $fullname }}-workers
            - --master=k8s://https://kubernetes.default.svc
            - --image={{ include "wallaroo.image" . }}
            - --executor-template=/etc/wallaroo/executor/pod.yaml
            - --executor-prefix={{ $fullname }}
            - --spark-secret-file=/etc/wallaroo/spark/secret
            - --health=0.0.0.0:7980
            - --gateway-patience={{ $values.gatewayPatienceSeconds }}
            {{- if include "wallaroo.takesOver" . }}
            - --take-over
            - --successor-patience={{ max 0 (sub (int $values.terminationGracePeriodSeconds) 40) }}
            {{- end }}
            {{- if .Values.acceptLostJournal }}
            - --accept-lost-journal
            {{- end }}
            - --driver-memory={{ $values.memory }}
            {{- if .Values.dashboard.enabled }}
            - --ui=0.0.0.0:4040
            {{- $service := printf "%s-dashboard.%s" $fullname .Release.Namespace }}
            {{- $names := concat (list $service (printf "%s.svc" $service) (printf "%s.svc.cluster.local" $service)) .Values.dashboard.hosts }}
            {{- range .Values.routes }}
            {{- if eq .to "dashboard" }}
            {{- $names = append $names .host }}
            {{- end }}
            {{- end }}
            {{- range $names }}
            - --ui-name={{ . }}
            {{- end }}
            {{- with .Values.dashboard.tokenSecret }}
            - --ui-token-file=/etc/wallaroo/dashboard/token
            {{- end }}
            {{- end }}
            {{- range $key, $value := include "wallaroo.sparkConf" . | fromYaml }}
            - {{ printf "--conf=%s=%s" $key (toString $value) | quote }}
            {{- end }}
            {{- with include "wallaroo.applicationTail" . }}
            {{- . | nindent 12 }}
            {{- end }}
          env:
            - name: POD_NAME
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
            - name: POD_NAMESPACE
              valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIP}}
            {{- with include "wallaroo.storeEnv" (list . .Values.storage.state.uri) }}
            {{- . | nindent 12 }}
            {{- end }}
            {{- with $values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: driver
              containerPort: 7078
              protocol: TCP
            - name: blocks
              containerPort: 7079
              protocol: TCP
            - name: health
              containerPort: 7980
              protocol: TCP
            {{- if .Values.dashboard.enabled }}
            - name: dashboard
              containerPort: 4040
              protocol: TCP
            {{- end }}
          {{- include "wallaroo.probes" $values | nindent 10 }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          securityContext:
            {{- toYaml .Values.securityContext | nindent 12 }}
          terminationMessagePolicy: FallbackToLogsOnError
          volumeMounts:
            {{- with include "wallaroo.stateMount" . }}
            {{- . | nindent 12 }}
            {{- end }}
            - name: executor
              mountPath: /etc/wallaroo/executor
              readOnly: true
            {{- if and .Values.dashboard.enabled .Values.dashboard.tokenSecret }}
            - name: dashboard
              mountPath: /etc/wallaroo/dashboard
              readOnly: true
            {{- end }}
            {{- include "wallaroo.volumeMounts" $part | nindent 12 }}
        {{- with $values.extraContainers }}
        {{- include "wallaroo.extraContainers" (dict "root" $ "containers" .) | nindent 8 }}
        {{- end }}
      volumes:
        {{- with include "wallaroo.stateVolume" . }}
        {{- . | nindent 8 }}
        {{- end }}
        - name: executor
          configMap:
            name: {{ $fullname }}-executor
        {{- if .Values.dashboard.enabled }}
        {{- with .Values.dashboard.tokenSecret }}
        {{- include "wallaroo.secretVolume" (dict "volume" "dashboard" "name" . "keys" (list "token")) | nindent 8 }}
        {{- end }}
        {{- end }}
        {{- include "wallaroo.volumes" $part | nindent 8 }}
{{- end }}

{{/* "true" if a new driver starts beside the old one, which a change of the state must not have. */}}
{{- define "wallaroo.takesOver" -}}
{{- ternary "true" "" (and .Values.driver.surge (not .Values.repartition)) -}}
{{- end }}

{{/* How a Deployment of one pod replaces it: beside the old one, if that is true or not empty. */}}
{{- define "wallaroo.replacement" -}}
revisionHistoryLimit: 2
strategy:
  {{- if . }}
  type: RollingUpdate
  rollingUpdate: {maxSurge: 1, maxUnavailable: 0}
  {{- else }}
  type: Recreate
  {{- end }}
{{- end }}

{{/* Options of all commands that run the application's functions on Spark. */}}
{{- define "wallaroo.engineArgs" -}}
- --gateway={{ include "wallaroo.fullname" . }}-gateway:7900
{{- if .Values.tls.door.secretName }}
- --gateway-ca=/etc/wallaroo/tls/door/ca.crt
{{- end }}
- --state-dir={{ include "wallaroo.stateDir" . }}
- --partitions={{ int .Values.partitions }}
- --function-timeout={{ .Values.functionTimeoutSeconds }}
- --max-entity-mib={{ int .Values.maxEntityMiB }}
{{- end }}

{{/* Spark settings derived from values. Spark takes the executors' resources only from these. */}}
{{- define "wallaroo.sparkConf" -}}
{{- $values := .Values.executor -}}
{{- $conf := dict
  "spark.executor.memory" $values.memory
  "spark.executor.memoryOverhead" ($values.memoryOverhead | default (printf "%dm" (include "wallaroo.memory" (list . 368 48 16) | int)))
  "spark.kubernetes.executor.request.cores" $values.cpuRequest
  "spark.kubernetes.container.image.pullPolicy" .Values.image.pullPolicy
-}}
{{- with $values.cpuLimit -}}
{{- $_ := set $conf "spark.kubernetes.executor.limit.cores" . -}}
{{- end -}}
{{- merge (dict) .Values.sparkConf $conf | toYaml -}}
{{- end }}

{{/* Pod template for the executors. Spark sets the image, the arguments, CPU and memory. */}}
{{- define "wallaroo.executorTemplate" -}}
{{- $part := dict "root" . "component" "executor" -}}
apiVersion: v1
kind: Pod
metadata:
  {{- include "wallaroo.podMetadata" $part | nindent 2 }}
spec:
  {{- include "wallaroo.podSettings" $part | nindent 2 }}
  {{- with .Values.executor.extraInitContainers }}
  initContainers:
    {{- include "wallaroo.extraContainers" (dict "root" $ "containers" .) | nindent 4 }}
  {{- end }}
  containers:
    - name: executor
      {{- with .Values.executor.ephemeralStorage }}
      resources:
        requests: {ephemeral-storage: {{ . | quote }}}
        limits: {ephemeral-storage: {{ . | quote }}}
      {{- end }}
      {{- with concat (include "wallaroo.storeEnv" (list . .Values.storage.state.uri) | fromYamlArray) .Values.executor.extraEnv }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- toYaml .Values.securityContext | nindent 8 }}
      terminationMessagePolicy: FallbackToLogsOnError
      volumeMounts:
        {{- with include "wallaroo.stateMount" . }}
        {{- . | nindent 8 }}
        {{- end }}
        {{- include "wallaroo.volumeMounts" $part | nindent 8 }}
    {{- with .Values.executor.extraContainers }}
    {{- include "wallaroo.extraContainers" (dict "root" $ "containers" .) | nindent 4 }}
    {{- end }}
  volumes:
    {{- with include "wallaroo.stateVolume" . }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- include "wallaroo.volumes" $part | nindent 4 }}
{{- end }}
