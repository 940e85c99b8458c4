{{/*
What helm says after an install: how to send the first message, and see the result. Takes dict root,
send (lines that send to the sources' ports on 127.0.0.1).
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
{{ .Chart.Name }} runs as {{ .Release.Name }}, with {{ int .Values.workers }} worker{{ if gt (int .Values.workers) 1 }}s{{ end }} of {{ int .Values.partitions }} at most{{ if .Values.stopped }}, once it is no longer stopped (stopped=true){{ end }}.

1. Wait until it is ready:

   kubectl -n {{ $namespace }} rollout status statefulset/{{ $fullname }}-gateway
   kubectl -n {{ $namespace }} rollout status statefulset/{{ $fullname }}-driver

2. Send messages. A message is a frame: its length as a big-endian 32-bit integer, then its bytes.
   Inside the cluster the sources are:
{{ range .Values.sources }}
   {{ printf "%-15s" .name }} {{ $fullname }}-sources.{{ $namespace }}:{{ int .port }}
{{- end }}
{{ if eq $type "LoadBalancer" }}
   From outside they are at the load balancer's address, as soon as it has one:

   kubectl -n {{ $namespace }} get service {{ $fullname }}-sources -o jsonpath='{.status.loadBalancer.ingress[0]}'
{{ else if eq $type "NodePort" }}
   From outside they are at every node's address, with these ports:

   kubectl -n {{ $namespace }} get service {{ $fullname }}-sources
{{ else }}
   From your machine, forward the ports, and send to them from another terminal:

   kubectl -n {{ $namespace }} port-forward service/{{ $fullname }}-sources {{ join " " $ports }}
{{ range $send }}
   {{ . }}
{{- end }}
{{ end }}
3. See the results:
{{ if .Values.outputs }}
   They go to {{ join ", " .Values.outputs }}.
{{- else }}
   kubectl -n {{ $namespace }} logs -f deployment/{{ $fullname }}-receiver

   That receiver is for trying out. Send them to your own: --set outputs[0]=HOST:PORT
{{- end }}

Scale:      helm upgrade {{ .Release.Name }} CHART -n {{ $namespace }} --reuse-values --set workers=2
Look after: wallaroo status {{ .Release.Name }} -n {{ $namespace }}
{{- if .Values.test.enabled }}
Check:      helm test {{ .Release.Name }} -n {{ $namespace }}
{{- end }}
{{- if not .Values.storage.keep }}

helm uninstall removes messages and state as well. Keep them with --set storage.keep=true.
{{- end }}
{{- end }}
{{- end }}
