{{/*
The pod that Helm runs before an upgrade replaces anything. It has what the gateway's pod has for loading
the application, except volume claims, which that pod may not share. While the driver is ready, it also has
the state that the driver uses.
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
  {{- $hasState := include "wallaroo.isStateThere" . }}
  {{- include "wallaroo.upgradeCheckSpec" (dict "root" . "hasState" $hasState) | nindent 2 }}
  {{- $component := ternary "driver" "gateway" (and (eq $hasState "true") (ne .Values.storage.state.uri "")) }}
  {{- $account := include "wallaroo.serviceAccountName" (dict "root" . "component" $component) }}
  {{- if or (not (index .Values $component).serviceAccount.create) (lookup "v1" "ServiceAccount" .Release.Namespace $account) }}
  serviceAccountName: {{ $account }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Stands for what the check looks at. The gateway's StatefulSet keeps it, so that nothing is checked twice. */}}
{{- define "wallaroo.checked" -}}
{{- $spec := dict "root" . "hasState" (ternary "true" "" .Values.upgradeCheck.state) -}}
{{- printf "%s%s" (include "wallaroo.upgradeCheckSpec" $spec) (include "wallaroo.kafkaSettings" .) | sha256sum -}}
{{- end }}

{{/* "true" if the state is to be checked, and is the one that a driver uses which is ready. */}}
{{- define "wallaroo.isStateThere" -}}
{{- $driver := include "wallaroo.existing" (dict "root" . "api" "apps/v1" "kind" "Deployment" "name" "driver") | fromJson -}}
{{- $pod := dig "spec" "template" "spec" dict $driver -}}
{{- $used := printf "--state-dir=%s" (include "wallaroo.stateDir" .) -}}
{{- $claims := list -}}
{{- range $pod.volumes -}}
{{- $claims = append $claims (dig "persistentVolumeClaim" "claimName" "" .) -}}
{{- end -}}
{{- $same := or .Values.storage.state.uri (has (include "wallaroo.claim" (dict "root" . "volume" "state")) $claims) -}}
{{- range $pod.containers -}}
{{- if and (eq .name "driver") (has $used .args) $same $.Values.upgradeCheck.state (dig "status" "readyReplicas" 0 $driver) -}}
true
{{- end -}}
{{- end -}}
{{- end }}

{{/* The pod's spec: dict root, hasState. Where only one node has the state, it runs there. */}}
{{- define "wallaroo.upgradeCheckSpec" -}}
{{- $hasState := eq .hasState "true" -}}
{{- $root := .root -}}
{{- with $root -}}
{{- $values := .Values.gateway -}}
{{- $own := .Values.upgradeCheck -}}
{{- $place := ternary "driver" "gateway" (and $hasState (eq (include "wallaroo.isOnOneNode" .) "true")) -}}
{{- $mounts := printf "%s\n%s" (include "wallaroo.tlsMounts" .) (include "wallaroo.kafkaMounts" .) | fromYamlArray -}}
{{- $mounts = concat (list (dict "name" "tmp" "mountPath" "/tmp")) $mounts $values.extraVolumeMounts -}}
{{- range ternary (include "wallaroo.stateMount" . | fromYamlArray) list $hasState -}}
{{- $mounts = append $mounts (merge (dict "readOnly" true) .) -}}
{{- end -}}
restartPolicy: Never
activeDeadlineSeconds: {{ int $own.timeoutSeconds }}
automountServiceAccountToken: false
{{ include "wallaroo.anyPod" (dict "root" . "component" $place "tolerations" (index .Values $place).tolerations) }}
affinity:
  {{- with (index .Values $place).affinity.nodeAffinity }}
  nodeAffinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # where the image is needed next
  podAffinity:
    {{- if eq $place "driver" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - {{- include "wallaroo.nodeOf" (dict "root" . "component" "driver") | nindent 8 }}
    {{- end }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          {{- include "wallaroo.nodeOf" (dict "root" . "component" "gateway") | nindent 10 }}
{{- with $values.extraInitContainers }}
initContainers:
  {{- include "wallaroo.extraContainers" (dict "root" $root "containers" .) | nindent 2 }}
{{- end }}
containers:
  - name: check
    image: {{ include "wallaroo.image" . }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      - check
      - /app
      {{- if $hasState }}
      - --state-dir={{ include "wallaroo.stateDir" . }}
      {{- end }}
      - --
      {{- with include "wallaroo.addresses" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- range concat (include "wallaroo.kafkaOptions" . | fromYamlArray) .Values.args }}
      - {{ toString . | quote }}
      {{- end }}
    {{- $files := include "wallaroo.kafkaFiles" . }}
    {{- $store := ternary (include "wallaroo.storeEnv" .) "" $hasState }}
    {{- if or $files $store $values.extraEnv }}
    env:
      {{- with $store }}
      {{- . | nindent 6 }}
      {{- end }}
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
  {{- with ternary (include "wallaroo.stateVolume" .) "" $hasState }}
  {{- . | nindent 2 }}
  {{- end }}
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
{{- end }}
