{{/*
A pod's spec that loads the application, but for how often it runs: dict root, name, image, args (without
the application's), resources, hasState (a boolean), place (the component whose nodes it may use), affinity
(to pods), and mounts and volumes of its own. It has what the gateway's pod has for loading the
application, except volume claims, which that pod may not share.
*/}}
{{- define "wallaroo.loadingPod" -}}
{{- with .root -}}
{{- $values := .Values.gateway -}}
{{- $mounts := printf "%s\n%s" (include "wallaroo.tlsMounts" .) (include "wallaroo.kafkaMounts" .) | fromYamlArray -}}
{{- $mounts = concat (list (dict "name" "tmp" "mountPath" "/tmp")) $mounts $values.extraVolumeMounts ($.mounts | default list) -}}
{{- range ternary (include "wallaroo.stateMount" . | fromYamlArray) list $.hasState -}}
{{- $mounts = append $mounts (merge (dict "readOnly" true) .) -}}
{{- end -}}
automountServiceAccountToken: false
{{ include "wallaroo.anyPod" (dict "root" . "component" $.place "tolerations" (index .Values $.place).tolerations) }}
affinity:
  {{- with (index .Values $.place).affinity.nodeAffinity }}
  nodeAffinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  podAffinity:
    {{- toYaml $.affinity | nindent 4 }}
{{- with $values.extraInitContainers }}
initContainers:
  {{- include "wallaroo.extraContainers" (dict "root" $.root "containers" .) | nindent 2 }}
{{- end }}
containers:
  - name: {{ $.name }}
    image: {{ $.image }}
    imagePullPolicy: {{ .Values.image.pullPolicy }}
    args:
      {{- range $.args }}
      - {{ . | quote }}
      {{- end }}
      - --
      {{- with include "wallaroo.addresses" . | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- range concat (include "wallaroo.kafkaOptions" . | fromYamlArray) .Values.args }}
      - {{ toString . | quote }}
      {{- end }}
    {{- $files := include "wallaroo.kafkaFiles" . }}
    {{- $store := include "wallaroo.storeEnv" (list . (and $.hasState .Values.storage.state.uri)) }}
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
      {{- toYaml $.resources | nindent 6 }}
    securityContext:
      {{- toYaml .Values.securityContext | nindent 6 }}
    terminationMessagePolicy: FallbackToLogsOnError
    volumeMounts:
      {{- toYaml $mounts | nindent 6 }}
volumes:
  - name: tmp
    emptyDir:
      {{- toYaml $values.tmpVolume | nindent 6 }}
  {{- with ternary (include "wallaroo.stateVolume" .) "" $.hasState }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $.volumes }}
  {{- toYaml . | nindent 2 }}
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
