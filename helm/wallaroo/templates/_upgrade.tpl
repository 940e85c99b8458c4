{{/*
The pod that Helm runs before an upgrade replaces anything. It has what the gateway's pod has for loading
the application, except volume claims, which that pod may not share.
*/}}
{{- define "wallaroo.upgradeCheck" -}}
{{- if and .Values.upgradeCheck.enabled (not .Values.stopped) -}}
{{- $gateway := include "wallaroo.existing" (dict "root" . "api" "apps/v1" "kind" "StatefulSet" "name" "gateway") | fromJson -}}
{{- $isNew := ne (include "wallaroo.checked" .) (dig "metadata" "annotations" "wallaroo/checked" "" $gateway) -}}
{{- $failed := include "wallaroo.existing" (dict "root" . "api" "v1" "kind" "Pod" "name" "upgrade-check") | fromJson -}}
{{- if or $isNew $failed }}
---
apiVersion: v1
kind: Pod
metadata:
  {{- $annotations := dict
    "helm.sh/hook" "pre-upgrade"
    "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded"
    "helm.sh/hook-output-log-policy" "hook-failed"
  }}
  {{- with include "wallaroo.kafkaSettings" . }}
  {{- $_ := set $annotations "wallaroo/kafka-settings" . }}
  {{- end }}
  {{- include "wallaroo.metadata" (dict "root" . "component" "upgrade-check" "name" "upgrade-check" "annotations" $annotations) | nindent 2 }}
  {{- with dig "metadata" "uid" "" $gateway }}
  # one that failed stays, to be looked at, and goes with the release
  ownerReferences:
    - apiVersion: apps/v1
      kind: StatefulSet
      name: {{ include "wallaroo.fullname" $ }}-gateway
      uid: {{ . }}
  {{- end }}
spec:
  {{- include "wallaroo.upgradeCheckSpec" . | nindent 2 }}
  {{- $account := include "wallaroo.serviceAccountName" (dict "root" . "component" "gateway") }}
  {{- if or (not .Values.gateway.serviceAccount.create) (lookup "v1" "ServiceAccount" .Release.Namespace $account) }}
  serviceAccountName: {{ $account }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Stands for what the check looks at. The gateway's StatefulSet keeps it, so that nothing is checked twice. */}}
{{- define "wallaroo.checked" -}}
{{- printf "%s%s" (include "wallaroo.upgradeCheckSpec" .) (include "wallaroo.kafkaSettings" .) | sha256sum -}}
{{- end }}

{{- define "wallaroo.upgradeCheckSpec" -}}
{{- $values := .Values.gateway -}}
{{- $own := .Values.upgradeCheck -}}
{{- $near := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "wallaroo.selectorLabels" (dict "root" . "component" "gateway") | fromYaml)) -}}
{{- $mounts := printf "%s\n%s" (include "wallaroo.tlsMounts" .) (include "wallaroo.kafkaMounts" .) | fromYamlArray -}}
{{- $mounts = concat (list (dict "name" "tmp" "mountPath" "/tmp")) $mounts $values.extraVolumeMounts -}}
restartPolicy: Never
activeDeadlineSeconds: {{ int $own.timeoutSeconds }}
automountServiceAccountToken: false
{{ include "wallaroo.anyPod" (dict "root" . "component" "gateway" "tolerations" $values.tolerations) }}
affinity:
  {{- with $values.affinity.nodeAffinity }}
  nodeAffinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # where the image is needed next
  podAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          {{- toYaml $near | nindent 10 }}
{{- with $values.extraInitContainers }}
initContainers:
  {{- include "wallaroo.extraContainers" (dict "root" $ "containers" .) | nindent 2 }}
{{- end }}
containers:
  - name: check
    image: {{ include "wallaroo.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      - check
      - /app
      - --
      {{- with include "wallaroo.addresses" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- range concat (include "wallaroo.kafkaOptions" . | fromYamlArray) .Values.args }}
      - {{ toString . | quote }}
      {{- end }}
    {{- $files := include "wallaroo.kafkaFiles" . }}
    {{- if or $files $values.extraEnv }}
    env:
      {{- with $files }}
      - name: WALLAROO_KAFKA_SETTINGS
        value: {{ . }}
      {{- end }}
      {{- with $values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- end }}
    resources:
      {{- toYaml $own.resources | nindent 6 }}
    securityContext:
      {{- toYaml .Values.securityContext | nindent 6 }}
    terminationMessagePolicy: FallbackToLogsOnError
    volumeMounts:
      {{- toYaml $mounts | nindent 6 }}
volumes:
  - name: tmp
    emptyDir:
      {{- toYaml $values.tmpVolume | nindent 6 }}
  {{- if include "wallaroo.kafkaSettings" . }}
  # the ConfigMap is that of the release before
  - name: kafka-settings
    projected:
      sources:
        - downwardAPI:
            items:
              - path: settings
                fieldRef: {fieldPath: "metadata.annotations['wallaroo/kafka-settings']"}
  {{- end }}
  {{- if and .Values.kafka.enabled .Values.kafka.secretName }}
  {{- include "wallaroo.secretVolume" (dict "volume" "kafka" "name" .Values.kafka.secretName) | nindent 2 }}
  {{- end }}
  {{- with include "wallaroo.tlsVolumes" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- range $values.extraVolumes }}
  - {{ ternary (dict "name" .name "emptyDir" dict) . (or (hasKey . "persistentVolumeClaim") (hasKey . "ephemeral")) | toYaml | nindent 4 | trim }}
  {{- end }}
{{- end }}
