{{/*
A template of Jobs that copy log and state of the running release to a claim or an object store; with
a schedule, it also creates them itself.
*/}}
{{- define "wallaroo.snapshots" -}}
{{- $own := .Values.snapshots -}}
{{- if or $own.claim $own.uri }}
{{- $part := dict "root" . "component" "snapshots" "name" "snapshots" }}
---
apiVersion: {{ ternary "batch/v1" "batch/v1beta1" (.Capabilities.APIVersions.Has "batch/v1/CronJob") }}
kind: CronJob
metadata:
  {{- include "wallaroo.metadata" $part | nindent 2 }}
spec:
  schedule: {{ $own.schedule | default "0 3 * * *" | quote }}
  suspend: {{ empty $own.schedule }}
  concurrencyPolicy: Forbid
  successfulJobsHistoryLimit: 1
  failedJobsHistoryLimit: 3
  jobTemplate:
    metadata:
      labels:
        {{- include "wallaroo.podLabels" $part | nindent 8 }}
    spec:
      backoffLimit: 2
      template:
        metadata:
          labels:
            {{- include "wallaroo.podLabels" $part | nindent 12 }}
        spec:
          restartPolicy: Never
          serviceAccountName: {{ include "wallaroo.serviceAccountName" (dict "root" . "component" "gateway") }}
          automountServiceAccountToken: false
          {{- include "wallaroo.anyPod" (dict "root" . "component" "gateway" "tolerations" .Values.gateway.tolerations) | nindent 10 }}
          {{- if not .Values.stopped }}
          affinity:
            podAffinity:
              {{- include "wallaroo.nearLog" . | nindent 14 }}
          {{- end }}
          containers:
            - name: snapshot
              image: {{ include "wallaroo.image" . }}
              imagePullPolicy: {{ .Values.image.pullPolicy }}
              args:
                - snapshot
                - --state-dir={{ include "wallaroo.stateDir" . }}
                - --log-dir=/var/lib/wallaroo/gateway
                - --to={{ $own.uri | default "/var/lib/wallaroo/snapshots" }}/{{ include "wallaroo.fullname" . }}/$(JOB)
                {{- if $own.keep }}
                - --keep={{ int $own.keep }}
                {{- end }}
              env:
                - name: JOB
                  valueFrom: {fieldRef: {fieldPath: "metadata.labels['job-name']"}}
                {{- with include "wallaroo.storeEnv" (list . (or $own.uri .Values.storage.state.uri)) }}
                {{- . | nindent 16 }}
                {{- end }}
              resources:
                {{- toYaml $own.resources | nindent 16 }}
              securityContext:
                {{- toYaml .Values.securityContext | nindent 16 }}
              terminationMessagePolicy: FallbackToLogsOnError
              volumeMounts:
                - {name: tmp, mountPath: /tmp}
                - {name: journal, mountPath: /var/lib/wallaroo/gateway}
                {{- include "wallaroo.stateMount" . | nindent 16 }}
                {{- if $own.claim }}
                - {name: snapshots, mountPath: /var/lib/wallaroo/snapshots}
                {{- end }}
          volumes:
            - name: tmp
              emptyDir:
                {{- toYaml (ternary $own.tmpVolume .Values.gateway.tmpVolume (not (empty $own.uri))) | nindent 16 }}
            - name: journal
              persistentVolumeClaim:
                claimName: {{ include "wallaroo.claim" (dict "root" . "volume" "journal") }}
            {{- include "wallaroo.stateVolume" . | nindent 12 }}
            {{- with $own.claim }}
            - name: snapshots
              persistentVolumeClaim:
                claimName: {{ . }}
            {{- end }}
{{- end }}
{{- end }}

{{- define "wallaroo.checks.snapshots" -}}
{{- $own := .Values.snapshots -}}
{{- if and $own.claim $own.uri }}
snapshots has both claim and uri: set one of them.
{{- else if or $own.claim $own.uri -}}
{{- range $volume := ternary (list "journal") (list "journal" "state") (not (empty .Values.storage.state.uri)) -}}
{{- if has "ReadWriteOncePod" (index $.Values.storage $volume).accessModes }}
storage.{{ $volume }}.accessModes has ReadWriteOncePod, and snapshots are made in a separate pod: take ReadWriteOnce.
{{- end -}}
{{- end -}}
{{- else if $own.schedule }}
snapshots.schedule is set, and there are no snapshots without snapshots.claim or snapshots.uri: name a claim with room for them, or a folder of an object store.
{{- end -}}
{{- end }}
