{{/* HTTP from outside: an Ingress, or HTTPRoutes of the Gateway API. */}}

{{/* Services that a route can lead to, by the names of their ports: name and port of each. */}}
{{- define "wallaroo.routeTargets" -}}
{{- $fullname := include "wallaroo.fullname" . -}}
{{- if .Values.dashboard.enabled }}
dashboard: {{ dict "name" (printf "%s-dashboard" $fullname) "port" (int .Values.dashboard.service.port) | toJson }}
{{- end }}
{{- range $service := list "sources" "events" }}
{{- range index $.Values $service }}
{{ .name | quote }}: {{ dict "name" (printf "%s-%s" $fullname $service) "port" (int .port) | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{- define "wallaroo.routes" -}}
{{- $root := . -}}
{{- $targets := include "wallaroo.routeTargets" . | fromYaml -}}
{{- $hosts := dict -}}
{{- range .Values.routes -}}
{{- $_ := set $hosts .host (append (get $hosts .host | default list) .) -}}
{{- end -}}
{{- if .Values.ingress.enabled }}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  {{- include "wallaroo.metadata" (dict "root" . "component" "gateway" "annotations" .Values.ingress.annotations) | nindent 2 }}
spec:
  {{- with .Values.ingress.className }}
  ingressClassName: {{ . }}
  {{- end }}
  {{- with .Values.ingress.tlsSecretName }}
  tls:
    - secretName: {{ . }}
      hosts:
        {{- keys $hosts | sortAlpha | toYaml | nindent 8 }}
  {{- end }}
  rules:
    {{- range $host, $routes := $hosts }}
    - host: {{ $host }}
      http:
        paths:
          {{- range $routes }}
          {{- $target := get $targets .to }}
          - path: {{ .path | default "/" }}
            pathType: Prefix
            backend:
              service:
                name: {{ $target.name }}
                port:
                  number: {{ $target.port }}
          {{- end }}
    {{- end }}
{{- end }}
{{- if .Values.httpRoute.parents }}
{{- range $host, $routes := $hosts }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  {{- include "wallaroo.metadata" (dict "root" $root "component" "gateway" "name" $host) | nindent 2 }}
spec:
  parentRefs:
    {{- toYaml $root.Values.httpRoute.parents | nindent 4 }}
  hostnames: [{{ $host }}]
  rules:
    {{- range $routes }}
    - matches:
        - path: {type: PathPrefix, value: {{ .path | default "/" }}}
      backendRefs:
        - {{ get $targets .to | toJson }}
    {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "wallaroo.checks.routes" -}}
{{- $served := or .Values.ingress.enabled .Values.httpRoute.parents -}}
{{- if and .Values.routes (not $served) }}
routes is set, and nothing serves them: set ingress.enabled=true, or name Gateways in httpRoute.parents.
{{- end -}}
{{- if and $served (not .Values.routes) }}
{{ ternary "ingress.enabled is true" "httpRoute.parents is set" .Values.ingress.enabled }}, and routes is empty: name a host and what it leads to, for example --set routes[0].host=orders.example,routes[0].to=orders.
{{- end -}}
{{- range $key := list "className" "annotations" "tlsSecretName" -}}
{{- if and (index $.Values.ingress $key) (not $.Values.ingress.enabled) }}
ingress.{{ $key }} is set, and ingress.enabled is false: set ingress.enabled=true.
{{- end -}}
{{- end -}}
{{- $targets := include "wallaroo.routeTargets" . | fromYaml -}}
{{- $places := dict -}}
{{- range $number, $route := .Values.routes -}}
{{- $place := printf "%s%s" .host (.path | default "/") -}}
{{- if hasKey $places $place }}
routes[{{ get $places $place }}] and routes[{{ $number }}] have the same host and path, {{ $place }}: give each its own.
{{- end -}}
{{- $_ := set $places $place $number -}}
{{- if hasKey $targets .to -}}
{{- if and (eq .to "dashboard") (ne (.path | default "/") "/") }}
routes[{{ $number }}].path is {{ .path | quote }}, and the dashboard is served at "/" only: leave the path out, and give the dashboard a host of its own.
{{- end -}}
{{- else if eq .to "dashboard" }}
routes[{{ $number }}].to is dashboard, and dashboard.enabled is false: set dashboard.enabled=true.
{{- else }}
routes[{{ $number }}].to is {{ .to | quote }}: expected the name of a source or of a port of events ({{ keys $targets | sortAlpha | join ", " }}), or dashboard.
{{- end -}}
{{- end -}}
{{- if and .Values.httpRoute.parents (not (include "wallaroo.hasApi" (dict "root" . "api" "gateway.networking.k8s.io/v1"))) }}
httpRoute.parents is set, and the cluster has no gateway.networking.k8s.io/v1: install the Gateway API first, or use ingress.enabled (with helm template, say --api-versions gateway.networking.k8s.io/v1).
{{- end -}}
{{- end }}
