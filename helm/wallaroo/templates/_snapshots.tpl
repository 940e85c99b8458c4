{{/*
A template of Jobs that copy log and state of the running release to a claim; with a schedule, it also
creates them itself.
*/}}
{{- define "wallaroo.snapshots" -}}
{{- $own := .Values.snapshots -}}
{{- if $own.claim }}
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
                - --to=/var/lib/wallaroo/snapshots/{{ include "wallaroo.fullname" . }}/$(JOB)
                {{- if $own.keep }}
                - --keep={{ int $own.keep }}
                {{- end }}
              env:
                - name: JOB
                  valueFrom: {fieldRef: {fieldPath: "metadata.labels['job-name']"}}
              resources:
                {{- toYaml $own.resources | nindent 16 }}
              securityContext:
                {{- toYaml .Values.securityContext | nindent 16 }}
              terminationMessagePolicy: FallbackToLogsOnError
              volumeMounts:
                - {name: tmp, mountPath: /tmp}
                - {name: journal, mountPath: /var/lib/wallaroo/gateway}
                {{- include "wallaroo.stateMount" . | nindent 16 }}
                - {name: snapshots, mountPath: /var/lib/wallaroo/snapshots}
          volumes:
            - name: tmp
              emptyDir:
                {{- toYaml .Values.gateway.tmpVolume | nindent 16 }}
            - name: journal
              persistentVolumeClaim:
                claimName: {{ include "wallaroo.claim" (dict "root" . "volume" "journal") }}
            {{- include "wallaroo.stateVolume" . | nindent 12 }}
            - name: snapshots
              persistentVolumeClaim:
                claimName: {{ $own.claim }}
{{- end }}
{{- end }}

{{- define "wallaroo.checks.snapshots" -}}
{{- $own := .Values.snapshots -}}
{{- if $own.claim -}}
{{- if .Values.storage.state.uri }}
snapshots.claim is set, and the state is on an object store: snapshots need it on a volume. Use the versions of the bucket's objects while the release is stopped.
{{- end -}}
{{- range $volume := list "journal" "state" -}}
{{- if has "ReadWriteOncePod" (index $.Values.storage $volume).accessModes }}
storage.{{ $volume }}.accessModes has ReadWriteOncePod, and snapshots are made in a separate pod: take ReadWriteOnce.
{{- end -}}
{{- end -}}
{{- else if $own.schedule }}
snapshots.schedule is set, and there are no snapshots without snapshots.claim: name a claim with room for them.
{{- end -}}
{{- end }}
