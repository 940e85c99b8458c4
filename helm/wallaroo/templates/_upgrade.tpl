{{/*
The pod that Helm runs before an upgrade replaces anything. It has what the gateway's pod has for loading
the application, except volume claims, which that pod may not share. While the driver is ready, it also has
the state that the driver uses.
*/}}
{{- define "wallaroo.upgradeCheck" -}}
{{- if and .Values.upgradeCheck.enabled (not .Values.stopped) -}}
{{- $gateway := include "wallaroo.existing" (dict "root" . "api" "apps/v1" "kind" "Deployment" "name" "gateway") | fromJson -}}
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
      kind: Deployment
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

{{/* Stands for what the check looks at. The gateway's Deployment keeps it, so that nothing is checked twice. */}}
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
{{- $own := .root.Values.upgradeCheck -}}
{{- $place := ternary "driver" "gateway" (and $hasState (eq (include "wallaroo.isOnOneNode" .root) "true")) -}}
{{- $near := dict "weight" 100 "podAffinityTerm" (include "wallaroo.nodeOf" (dict "root" .root "component" "gateway") | fromYaml) -}}
{{- $affinity := dict "preferredDuringSchedulingIgnoredDuringExecution" (list $near) -}}{{/* where the image is needed next */}}
{{- if eq $place "driver" -}}
{{- $there := include "wallaroo.nodeOf" (dict "root" .root "component" "driver") | fromYaml -}}
{{- $_ := set $affinity "requiredDuringSchedulingIgnoredDuringExecution" (list $there) -}}
{{- end -}}
restartPolicy: Never
activeDeadlineSeconds: {{ int $own.timeoutSeconds }}
{{ include "wallaroo.loadingPod" (dict
  "root" .root "name" "check" "image" (include "wallaroo.image" .root) "resources" $own.resources
  "args" (concat (list "check" "/app") (ternary (list (printf "--state-dir=%s" (include "wallaroo.stateDir" .root))) list $hasState))
  "hasState" $hasState "place" $place "affinity" $affinity
) }}
{{- end }}
