{{/*
The notes that helm prints after an install: how to send the first message and see the result. dict
root, send (commands that send to the sources' ports on 127.0.0.1).
*/}}
{{- define "wallaroo.notes" -}}
{{- $send := .send -}}
{{- with .root -}}
{{- $fullname := include "wallaroo.fullname" . -}}
{{- $namespace := .Release.Namespace -}}
{{- $ports := list -}}
{{- range .Values.sources -}}
{{- $ports = append $ports (int .port | toString) -}}
{{- end -}}
{{- $type := .Values.gateway.service.type -}}
{{- $topics := dict "sources" list "sinks" list -}}
{{- range $side, $_ := $topics -}}
{{- range index $.root.Values.kafka $side -}}
{{- $_ := set $topics $side (append (get $topics $side) .topic) -}}
{{- end -}}
{{- end -}}
{{- $bounds := include "wallaroo.workers" . | fromJson -}}
{{- $workers := ternary (printf "%d to %d" (int $bounds.min) (int $bounds.max)) (toString (int $bounds.min)) (kindIs "map" .Values.workers) -}}
{{ .Chart.Name }} is installed as {{ .Release.Name }}, with {{ $workers }} worker{{ if ne $workers "1" }}s{{ end }} (at most {{ int .Values.partitions }}){{ if .Values.stopped }}. It is stopped (stopped=true){{ end }}.

1. Wait until it is ready:

   kubectl -n {{ $namespace }} rollout status deployment/{{ $fullname }}-gateway
   kubectl -n {{ $namespace }} rollout status deployment/{{ $fullname }}-driver
{{- if .Values.sources }}

2. Send messages. A message is a frame: its length as a big-endian 32-bit integer, then its bytes.
   Inside the cluster the sources are:
{{ range .Values.sources }}
   {{ printf "%-15s" .name }} {{ $fullname }}-sources.{{ $namespace }}:{{ int .port }}
{{- end }}
{{ if eq $type "LoadBalancer" }}
   From outside, they are at the load balancer's address, once it has one:

   kubectl -n {{ $namespace }} get service {{ $fullname }}-sources -o jsonpath='{.status.loadBalancer.ingress[0]}'
{{ else if eq $type "NodePort" }}
   From outside, they are at every node's address, on these ports:

   kubectl -n {{ $namespace }} get service {{ $fullname }}-sources
{{ else }}
   From your machine, forward the ports and send to them from another terminal:

   kubectl -n {{ $namespace }} port-forward service/{{ $fullname }}-sources {{ join " " $ports }}
{{ range $send }}
   {{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.routes }}

   From outside, by HTTP:
{{ range . }}
   {{ .host }}{{ .path | default "/" }} leads to {{ .to }}
{{- end }}
{{- end }}
{{- with $topics.sources }}

   Messages are read from {{ if gt (len .) 1 }}the topics{{ else }}the topic{{ end }} {{ join ", " . }}.
{{- end }}

{{ ternary "3" "2" (not (empty .Values.sources)) }}. See the results:
{{ with $topics.sinks }}
   They are written to {{ if gt (len .) 1 }}the topics{{ else }}the topic{{ end }} {{ join ", " . }}.
{{- end }}
{{- if .Values.outputs }}
   They are sent to {{ join ", " .Values.outputs }}.
{{- else if include "wallaroo.hasReceiver" . }}
   kubectl -n {{ $namespace }} logs -f deployment/{{ $fullname }}-receiver

   This receiver is only for trying things out. To use your own: --set outputs[0]=HOST:PORT
{{- end }}

Scale:   helm upgrade {{ .Release.Name }} CHART -n {{ $namespace }} --reuse-values --set workers=2
Inspect: wallaroo status {{ .Release.Name }} -n {{ $namespace }}
{{- if .Values.test.enabled }}
Test:    helm test {{ .Release.Name }} -n {{ $namespace }}
{{- end }}
{{- if not .Values.storage.keep }}

helm uninstall also deletes messages{{ with .Values.storage.state.uri }}, but not the state in {{ . }}, which belongs to them{{ else }} and state{{ end }}. To keep them: --set storage.keep=true
{{- end }}
{{- end }}
{{- end }}
