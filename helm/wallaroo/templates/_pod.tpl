{{/* Parts that the pods share. */}}

{{/* Fields of a pod's spec other than its containers: dict root, component, token (mounts the API token). */}}
{{- define "wallaroo.podSettings" -}}
{{- $values := index .root.Values .component -}}
serviceAccountName: {{ include "wallaroo.serviceAccountName" . }}
automountServiceAccountToken: {{ .token | default false }}
terminationGracePeriodSeconds: {{ int $values.terminationGracePeriodSeconds }}
{{ include "wallaroo.anyPod" (merge (dict "tolerations" (include "wallaroo.tolerations" . | fromYamlArray)) .) }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with include "wallaroo.affinity" . | fromYaml }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ merge (dict) . (dict "labelSelector" (dict "matchLabels" (include "wallaroo.selectorLabels" $ | fromYaml))) | toYaml | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- end }}

{{/* Fields that the specs of all pods have: dict root, component (with the node selector), tolerations. */}}
{{- define "wallaroo.anyPod" -}}
enableServiceLinks: false
securityContext:
  {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index .root.Values .component).nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
Tolerations of a component: dict root, component. Those of the user, which may have no key, replace the
chart's for the same taint: the shortest of several would count.
*/}}
{{- define "wallaroo.tolerations" -}}
{{- $own := (index .root.Values .component).tolerations -}}
{{- $keys := list -}}
{{- range $own -}}
{{- if eq (.effect | default "NoExecute") "NoExecute" -}}
{{- $keys = append $keys (.key | default "") -}}
{{- end -}}
{{- end -}}
{{- range $key := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" }}
{{- if not (or (has $key $keys) (has "" $keys)) }}
- key: {{ $key }}
  operator: Exists
  effect: NoExecute
  tolerationSeconds: {{ int $.root.Values.tolerationSeconds }}
{{- end }}
{{- end }}
{{- with $own }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The node of a component, as a term of pod affinity: dict root, component. */}}
{{- define "wallaroo.nodeOf" -}}
labelSelector:
  matchLabels:
    {{- include "wallaroo.selectorLabels" . | nindent 4 }}
topologyKey: kubernetes.io/hostname
{{- end }}

{{/*
Pod affinity of what reads the log and the state beside the gateway and the driver. It is on the node that
has the log; it prefers that of the state, if only one node has it. (A second required term would have to
match the same pod.)
*/}}
{{- define "wallaroo.nearLog" -}}
{{- $log := include "wallaroo.nodeOf" (dict "root" . "component" "gateway") | fromYaml -}}
{{- $affinity := dict "requiredDuringSchedulingIgnoredDuringExecution" (list $log) -}}
{{- if eq (include "wallaroo.isOnOneNode" .) "true" -}}
{{- $state := include "wallaroo.nodeOf" (dict "root" . "component" "driver") | fromYaml -}}
{{- $_ := set $affinity "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $state)) -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end }}

{{/*
Affinity of a component: dict root, component. Executors share the state with the driver, and a driver
with the one that it takes over from: if only one node has it, they run on the driver's node; otherwise,
they spread. A gateway runs on the node of the one that it takes over from, which has the journal. It
prefers another node than the driver's, so that messages are accepted when that one fails.
*/}}
{{- define "wallaroo.affinity" -}}
{{- $affinity := deepCopy (index .root.Values .component).affinity -}}
{{- $oneNode := include "wallaroo.isOnOneNode" .root | eq "true" -}}
{{- $joined := "" -}}
{{- if eq .component "gateway" -}}
{{- $joined = "gateway" -}}
{{- else if and $oneNode (or (eq .component "executor") (include "wallaroo.takesOver" .root)) -}}
{{- $joined = "driver" -}}
{{- end -}}
{{- with $joined -}}
{{- $there := include "wallaroo.nodeOf" (dict "root" $.root "component" .) | fromYaml -}}
{{- $pods := $affinity.podAffinity | default dict -}}
{{- $required := append ($pods.requiredDuringSchedulingIgnoredDuringExecution | default list) $there -}}
{{- $_ := set $pods "requiredDuringSchedulingIgnoredDuringExecution" $required -}}
{{- $_ := set $affinity "podAffinity" $pods -}}
{{- end -}}
{{- if and (or (eq .component "gateway") (and (eq .component "executor") (not $oneNode))) (not (hasKey $affinity "podAntiAffinity")) -}}
{{- $other := ternary "driver" "executor" (eq .component "gateway") -}}
{{- $there := include "wallaroo.nodeOf" (dict "root" .root "component" $other) | fromYaml -}}
{{- $preferred := list (dict "weight" 100 "podAffinityTerm" $there) -}}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $preferred) -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end }}

{{/*
Containers of the user, with the chart's security context unless they have their own: dict root,
containers.
*/}}
{{- define "wallaroo.extraContainers" -}}
{{- range .containers }}
{{- $default := dict "securityContext" $.root.Values.securityContext }}
- {{ ternary . (merge $default .) (hasKey . "securityContext") | toYaml | nindent 2 | trim }}
{{- end }}
{{- end }}

{{/* Volume mounts of a component: dict root, component. */}}
{{- define "wallaroo.volumeMounts" -}}
- name: tmp
  mountPath: /tmp
- name: token
  mountPath: /etc/wallaroo/token
  readOnly: true
{{- if ne .component "gateway" }}
- name: spark
  mountPath: /etc/wallaroo/spark
  readOnly: true
{{- end }}
{{- if .root.Values.tls.door.secretName }}
- name: tls-door
  mountPath: /etc/wallaroo/tls/door
  readOnly: true
{{- end }}
{{- with (index .root.Values .component).extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Volumes of a component: dict root, component. */}}
{{- define "wallaroo.volumes" -}}
- name: tmp
  emptyDir:
    {{- toYaml (index .root.Values .component).tmpVolume | nindent 4 }}
- name: token
  secret:
    secretName: {{ include "wallaroo.tokenSecret" .root }}
    items:
      - key: {{ .root.Values.token.key }}
        path: token
{{- if ne .component "gateway" }}
- name: spark
  secret:
    secretName: {{ include "wallaroo.sparkSecret" .root }}
    items:
      - key: {{ .root.Values.sparkSecret.key }}
        path: secret
{{- end }}
{{- with .root.Values.tls.door.secretName }}
{{ include "wallaroo.secretVolume" (dict "volume" "tls-door" "name" . "keys" (ternary (list "tls.crt" "tls.key") (list "ca.crt") (eq $.component "gateway"))) }}
{{- end }}
{{- with (index .root.Values .component).extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Probes of the gateway or the driver; takes the component's values. */}}
{{- define "wallaroo.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: health}
  {{- toYaml .startupProbe | nindent 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  {{- toYaml .livenessProbe | nindent 2 }}
readinessProbe:
  httpGet: {path: /readyz, port: health}
  {{- toYaml .readinessProbe | nindent 2 }}
{{- end }}

{{/* Labels and annotations of a component's pods: dict root, component, annotations. */}}
{{- define "wallaroo.podMetadata" -}}
labels:
  {{- include "wallaroo.podLabels" . | nindent 2 }}
{{- with merge (dict) ((index .root.Values .component).podAnnotations | default dict) (.annotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
MiB that a container needs: those at the beginning, and so many times the largest frame and what else is in
progress. SECURITY.md says how many times its size a frame takes.
*/}}
{{- define "wallaroo.memory" -}}
{{- $frame := div (add (int64 (index . 0).Values.maxFrameBytes) 1048575) 1048576 -}}
{{- add (index . 1) (mul (index . 2) (add $frame (index . 3))) -}}
{{- end }}
