{{/* Peers of a rule, as JSON: dict named (a list, or "all"), release. An empty list means all. */}}
{{- define "wallaroo.peers" -}}
{{- if kindIs "string" .named }}[]{{ else }}{{ append (.named | default list) .release | toJson }}{{ end -}}
{{- end }}

{{/* Restricts which peers may reach which port and, of the components in `egress`, what they may reach. */}}
{{- define "wallaroo.network" -}}
{{- if .Values.networkPolicy.enabled }}
{{- $root := . -}}
{{- $release := dict "podSelector" (dict "matchLabels" (dict "app.kubernetes.io/name" .Chart.Name "app.kubernetes.io/instance" .Release.Name)) -}}
{{- $policy := .Values.networkPolicy -}}
{{- $senders := include "wallaroo.peers" (dict "named" $policy.senders "release" $release) | fromJsonArray -}}
{{- $monitors := include "wallaroo.peers" (dict "named" $policy.monitors "release" $release) | fromJsonArray -}}
{{- $sources := list -}}
{{- range .Values.sources -}}
{{- $sources = append $sources (dict "port" (int .port) "protocol" "TCP") -}}
{{- end -}}
{{- $viewers := include "wallaroo.peers" (dict "named" $policy.viewers "release" $release) | fromJsonArray -}}
{{- $events := list -}}
{{- range .Values.events -}}
{{- $events = append $events (dict "port" (int .port) "protocol" "TCP") -}}
{{- end -}}
{{- $outputs := list -}}
{{- range .Values.receiver.ports -}}
{{- $outputs = append $outputs (dict "port" (int .) "protocol" "TCP") -}}
{{- end -}}
{{- $inner := list (dict "port" 7900 "protocol" "TCP") (dict "port" 7901 "protocol" "TCP") -}}
{{- $health := list (dict "port" 7980 "protocol" "TCP") -}}
{{- $shown := $health -}}
{{- if .Values.dashboard.enabled -}}
{{- $shown = append $health (dict "port" 4040 "protocol" "TCP") -}}
{{- end -}}
{{- $spark := list (dict "port" 7078 "protocol" "TCP") (dict "port" 7079 "protocol" "TCP") -}}
{{- /* ingress of each component: its ports, and the peers that may reach them; an empty list is all */ -}}
{{- $gateway := list
  (dict "ports" $inner "from" (list $release))
  (dict "ports" $health "from" $monitors)
-}}
{{- if $sources -}}{{- /* a rule without ports would open all */ -}}
{{- $gateway = prepend $gateway (dict "ports" $sources "from" $senders) -}}
{{- end -}}
{{- if $events -}}
{{- $gateway = append $gateway (dict "ports" $events "from" $viewers) -}}
{{- end -}}
{{- $rules := dict
  "gateway" $gateway
  "driver" (list
    (dict "ports" $spark "from" (list $release))
    (dict "ports" $shown "from" $monitors))
  "executor" (list (dict "from" (list $release)))
-}}
{{- if include "wallaroo.hasReceiver" . -}}
{{- $_ := set $rules "receiver" (list (dict "ports" (append $outputs (dict "port" 7981 "protocol" "TCP")) "from" (list $release))) -}}
{{- end -}}
{{- range $component, $rule := $rules }}
{{- $part := dict "root" $root "component" $component "name" $component }}
{{- $egress := get ($policy.egress | default dict) $component }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  {{- include "wallaroo.metadata" $part | nindent 2 }}
spec:
  podSelector:
    matchLabels:
      {{- include "wallaroo.selectorLabels" $part | nindent 6 }}
  policyTypes: [Ingress{{ if kindIs "slice" $egress }}, Egress{{ end }}]
  ingress:
    {{- toYaml $rule | nindent 4 }}
  {{- if kindIs "slice" $egress }}
  egress:
    - to:
        {{- list $release | toYaml | nindent 8 }}
    - ports: # of DNS, wherever it is
        - {port: 53, protocol: UDP}
        - {port: 53, protocol: TCP}
    {{- with $egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
