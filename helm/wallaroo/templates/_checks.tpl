{{/* Checks that the schema cannot express: one sentence per mistake, all reported at once. */}}
{{- define "wallaroo.checks" -}}
{{- $lines := list -}}
{{- range $check := list "values" "keys" "forms" "numbers" "name" "image" "sizes" "placement" "sources" "routes" "kafka" "tls" "dashboard" "workers" "store" "disruption" "capabilities" "test" "upgrade" "snapshots" "shadow" -}}
{{- range splitList "\n" (include (printf "wallaroo.checks.%s" $check) $) -}}
{{- with trim . -}}
{{- $lines = append $lines . -}}
{{- end -}}
{{- end -}}
{{- if and $lines (eq $check "values") -}}
{{- fail (printf "\n\n%s\n" (join "\n" $lines)) -}}
{{- end -}}
{{- end -}}
{{- with $lines -}}
{{- fail (printf "\n\n%s\n" (join "\n" .)) -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.values" -}}
{{- range $key := list "image" "workers" "partitions" "onError" "kafka" "tls" "token" "sparkSecret" "storage" "gateway" "driver" "executor" "upgradeCheck" "snapshots" "shadow" "receiver" "rbac" "networkPolicy" "dashboard" "serviceMonitor" "prometheusRule" "grafanaDashboard" "test" "ingress" "httpRoute" -}}
{{- if or (not (hasKey $.Values $key)) (kindIs "invalid" (get $.Values $key)) }}
{{ $key }} is null: leave it out to have its default, or give it a value.
{{- end -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.name" -}}
{{- $name := include "wallaroo.fullname" . -}}
{{- if gt (len $name) 40 }}
The name {{ $name | quote }} has {{ len $name }} characters, and the names of executors leave room for 40: set fullnameOverride.
{{- end -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) }}
The name {{ $name | quote }} cannot be a Service's: it must begin with a letter, and have only lower case letters, digits and "-". Set fullnameOverride.
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.image" -}}
{{- if not .Values.image.repository }}
image.repository is empty: name the application's image, for example --set image.repository=registry.example/team/votes.
{{- end -}}
{{- if and .Values.image.tag .Values.image.digest }}
image.tag and image.digest are both set, and only the digest would count: leave one of them empty.
{{- end -}}
{{- range $context := list "podSecurityContext" "securityContext" -}}
{{- $user := (index $.Values $context | default dict).runAsUser -}}
{{- if eq (toString $user) "0" }}
{{ $context }}.runAsUser is 0, and the image is not made for root: leave it at 185, or set another user (null if the cluster chooses one).
{{- end -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.sources" -}}
{{- if not (or .Values.sources .Values.kafka.enabled) }}
sources is empty: name the application's sources in the order it takes them, for example --set sources[0].name=orders,sources[0].port=7010. If it reads topics of Kafka only, set kafka.enabled=true.
{{- end -}}
{{- $names := dict -}}
{{- $ports := dict -}}
{{- $kinds := dict "sources" "source" "events" "port of events" -}}
{{- range $kind := list "sources" "events" -}}
{{- $one := get $kinds $kind -}}
{{- range index $.Values $kind -}}
{{- if hasKey $names .name }}
Two {{ ternary "sources" "ports of sources or events" (empty $.Values.events) }} have the name {{ .name }}: each needs a different name.
{{- end -}}
{{- if hasKey $ports (toString (int .port)) }}
The {{ ternary "sources" "ports" (empty $.Values.events) }} {{ get $ports (toString (int .port)) }} and {{ .name }} have the same port {{ int .port }}: each needs a different port.
{{- end -}}
{{- if or (has .name (list "inner" "health")) (has (int .port) (list 7900 7980)) }}
The {{ $one }} {{ .name }} with port {{ int .port }} is in the way of the gateway's own ports (inner, 7900; health, 7980): choose another name and port.
{{- end -}}
{{- if or (eq .name "chunks") (eq (int .port) 7901) }}
The {{ $one }} {{ .name }} with port {{ int .port }} is in the way of the port at which the gateway hands out chunks (chunks, 7901): choose another name and port.
{{- end -}}
{{- $_ := set $names .name true -}}
{{- $_ := set $ports (toString (int .port)) .name -}}
{{- end -}}
{{- end -}}
{{- range $name := keys .Values.gateway.service.nodePorts | sortAlpha -}}
{{- if not (hasKey $names $name) }}
gateway.service.nodePorts names the source {{ $name | quote }}, and {{ ternary (printf "the sources are %s" (keys $names | sortAlpha | join ", ")) "sources is empty" (not (empty $names)) }}.
{{- end -}}
{{- end -}}
{{- if and .Values.gateway.service.nodePorts (eq .Values.gateway.service.type "ClusterIP") }}
gateway.service.nodePorts is set, and gateway.service.type is ClusterIP, which has none: take NodePort or LoadBalancer.
{{- end -}}
{{- if and (ne .Values.gateway.service.type "LoadBalancer") (or .Values.gateway.service.loadBalancerClass .Values.gateway.service.loadBalancerSourceRanges) }}
gateway.service has settings of a load balancer, and its type is {{ .Values.gateway.service.type }}: set gateway.service.type=LoadBalancer.
{{- end -}}
{{- if and .Values.gateway.service.externalTrafficPolicy (eq .Values.gateway.service.type "ClusterIP") }}
gateway.service.externalTrafficPolicy is set, and gateway.service.type is ClusterIP, which has none: take NodePort or LoadBalancer.
{{- end -}}
{{- range .Values.receiver.ports -}}
{{- if eq (int .) 7981 }}
receiver.ports has 7981, where the receiver answers helm test: choose another port.
{{- end -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.kafka" -}}
{{- $kafka := .Values.kafka -}}
{{- if not $kafka.enabled -}}
{{- range $key := list "brokers" "sources" "sinks" "settings" "secretName" -}}
{{- if index $kafka $key }}
kafka.{{ $key }} is set, and kafka.enabled is false: set kafka.enabled=true.
{{- end -}}
{{- end -}}
{{- range $key := list "authorities" "secretName" -}}
{{- if index $.Values.tls.kafka $key }}
tls.kafka.{{ $key }} is set, and kafka.enabled is false: set kafka.enabled=true.
{{- end -}}
{{- end -}}
{{- end -}}
{{- $names := dict -}}
{{- range $side, $default := dict "sources" "kafka_source" "sinks" "kafka_sink" -}}
{{- range index $kafka $side -}}
{{- $name := .name | default $default -}}
{{- if not (or .brokers $kafka.brokers) }}
The topic {{ .topic }} in kafka.{{ $side }} has no brokers: set kafka.brokers, for example --set kafka.brokers[0]=broker-1.example:9092.
{{- end -}}
{{- if hasKey $names $name }}
The topics {{ get $names $name }} and {{ .topic }} become the same options, --{{ $name }}_topic and --{{ $name }}_brokers: give each its own name.
{{- end -}}
{{- $_ := set $names $name .topic -}}
{{- end -}}
{{- end -}}
{{- range $name := keys $kafka.settings | sortAlpha -}}
{{- if regexMatch "password|secret|key\\.pem|oauthbearer\\.config|credential" $name }}
kafka.settings has {{ $name }}, a secret, and a ConfigMap is no place for it: write it to the file in the Secret that kafka.secretName names.
{{- end -}}
{{- end -}}
{{- if include "wallaroo.kafkaFiles" . -}}
{{- range .Values.gateway.extraEnv -}}
{{- if eq .name "WALLAROO_KAFKA_SETTINGS" }}
gateway.extraEnv has WALLAROO_KAFKA_SETTINGS, which kafka.settings, kafka.secretName and tls.kafka set: remove it.
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.tls" -}}
{{- with .Values.tls -}}
{{- if and .sources.clientAuthorities (not .sources.secretName) }}
tls.sources.clientAuthorities is set, and without tls.sources.secretName sources speak plain TCP: name the Secret with their certificate, too.
{{- end -}}
{{- if and .outputs.secretName (not .outputs.authorities) }}
tls.outputs.secretName is set, and without tls.outputs.authorities outputs go out by plain TCP: name the Secret with the authorities of the receivers, too.
{{- end -}}
{{- if and .kafka.secretName (not .kafka.authorities) }}
tls.kafka.secretName is set, and without tls.kafka.authorities brokers are reached by plain TCP: name the Secret with their authorities, too.
{{- end -}}
{{- if and .outputs.authorities (not $.Values.outputs) }}
tls.outputs.authorities is set, and outputs is empty: the receiver that comes along speaks plain TCP. Name outputs of your own.
{{- end -}}
{{- if and .sources.clientAuthorities $.Values.test.enabled (not $.Values.test.tlsSecretName) }}
tls.sources.clientAuthorities is set, and helm test has no certificate to show: set test.tlsSecretName, or test.enabled=false.
{{- end -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.dashboard" -}}
{{- if and .Values.dashboard.enabled (not .Values.dashboard.tokenSecret) (not (and .Values.networkPolicy.enabled (kindIs "slice" .Values.networkPolicy.monitors))) }}
dashboard.enabled is true, and anyone who reaches it could view keys, state and failed messages: set dashboard.tokenSecret to a Secret with a token, or name who may reach it in networkPolicy.monitors, with networkPolicy.enabled=true.
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.workers" -}}
{{- $bounds := include "wallaroo.workers" . | fromJson -}}
{{- $most := ternary "workers.max" "workers" (kindIs "map" .Values.workers) -}}
{{- if gt (int $bounds.max) (int .Values.partitions) }}
{{ $most }} is {{ int $bounds.max }} and partitions is {{ int .Values.partitions }}: more workers than partitions have nothing to do. Set {{ $most }} to {{ int .Values.partitions }} or less; for more partitions see "Scale" in docs/kubernetes.md.
{{- end -}}
{{- if gt (int $bounds.min) (int $bounds.max) }}
workers.min is {{ int $bounds.min }} and workers.max is {{ int $bounds.max }}: no number is between them. Set workers.min to {{ int $bounds.max }} or less.
{{- end -}}
{{- if and .Values.repartition .Values.stopped }}
repartition and stopped are both set, and a stopped application repartitions nothing: set stopped=false.
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.store" -}}
{{- $state := .Values.storage.state -}}
{{- if $state.uri -}}
{{- if .Values.repartition }}
repartition is true, and the state is on an object store ({{ $state.uri }}), where its partitions cannot be changed: set repartition=false.
{{- end -}}
{{- if $state.existingClaim }}
storage.state has both uri and existingClaim: set one of them.
{{- end -}}
{{- else if not (or (include "wallaroo.archiveIsStored" .) .Values.snapshots.uri) -}}
{{- range $key := list "endpoint" "region" "credentialsSecret" -}}
{{- if index $state $key }}
storage.state.{{ $key }} is set, and nothing is on an object store: set storage.state.uri, gateway.archiveDirectory or snapshots.uri to a place there, too.
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.disruption" -}}
{{- if has "ReadWriteOncePod" .Values.storage.state.accessModes }}
storage.state.accessModes has ReadWriteOncePod, and driver and executors share the volume: take ReadWriteMany, or ReadWriteOnce to have them on one node.
{{- end -}}
{{- with .Values.executor.podDisruptionBudget -}}
{{- $least := (include "wallaroo.workers" $ | fromJson).min | int -}}
{{- $name := ternary "workers.min" "workers" (kindIs "map" $.Values.workers) -}}
{{- if and .enabled (ge (int .minAvailable) $least) }}
executor.podDisruptionBudget.minAvailable is {{ int .minAvailable }} and {{ $name }} is {{ $least }}: no node with an executor could be drained. Make it smaller than {{ $name }}.
{{- end -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.capabilities" -}}
{{- range $key := list "serviceMonitor" "prometheusRule" -}}
{{- if and (index $.Values $key).enabled (not (include "wallaroo.hasApi" (dict "root" $ "api" "monitoring.coreos.com/v1"))) }}
{{ $key }}.enabled is true, and the cluster has no monitoring.coreos.com/v1: install the Prometheus operator first, or leave it off (with helm template, say --api-versions monitoring.coreos.com/v1).
{{- end -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.test" -}}
{{- if .Values.test.enabled -}}
{{- $names := list -}}
{{- range .Values.sources -}}
{{- $names = append $names .name -}}
{{- end -}}
{{- range .Values.test.messages -}}
{{- if not (has .source $names) }}
test.messages names the source {{ .source | quote }}, and {{ ternary (printf "the sources are %s" (join ", " $names)) "sources is empty" (not (empty $names)) }}.
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* Checks against the objects in the cluster; skipped without one, as with helm template. */}}
{{- define "wallaroo.checks.upgrade" -}}
{{- $fullname := include "wallaroo.fullname" . -}}
{{- $before := include "wallaroo.partitionsBefore" . -}}
{{- if and $before (ne (int $before) (int .Values.partitions)) (not .Values.repartition) }}
partitions is {{ int .Values.partitions }}, and the state of this release has {{ $before }}: they are fixed at the first install. Set partitions={{ $before }}, or set repartition=true in the same upgrade to have the driver change them (see "Scale" in docs/kubernetes.md).
{{- end -}}
{{- range $volume := list "journal" "state" -}}
{{- $values := index $.Values.storage $volume -}}
{{- $claim := include "wallaroo.existing" (dict "root" $ "api" "v1" "kind" "PersistentVolumeClaim" "name" $volume) | fromJson -}}
{{- if and $claim (not $values.existingClaim) -}}
{{- $class := dig "spec" "storageClassName" "" $claim -}}
{{- if and $values.storageClass (ne $values.storageClass $class) }}
storage.{{ $volume }}.storageClass is {{ $values.storageClass | quote }}, and the claim {{ $fullname }}-{{ $volume }} has {{ $class | quote }}: a claim keeps its class. See "Move" in docs/kubernetes.md.
{{- end -}}
{{- $modes := dig "spec" "accessModes" (list) $claim -}}
{{- if ne (sortAlpha $modes | join ",") (sortAlpha $values.accessModes | join ",") }}
storage.{{ $volume }}.accessModes is {{ join ", " $values.accessModes }}, and the claim {{ $fullname }}-{{ $volume }} has {{ join ", " $modes }}: a claim keeps its modes. See "Move" in docs/kubernetes.md.
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
Number of partitions of the existing state, as recorded in the cluster; empty if unknown. The volume
claim keeps the number when the release is uninstalled. If the driver does not become ready, it may have
rejected the number of partitions; only the driver knows the right one, so any number is accepted then.
*/}}
{{- define "wallaroo.partitionsBefore" -}}
{{- $driver := include "wallaroo.existing" (dict "root" . "api" "apps/v1" "kind" "Deployment" "name" "driver") | fromJson -}}
{{- if not (and (dig "spec" "replicas" 0 $driver) (not (dig "status" "readyReplicas" 0 $driver))) -}}
{{- $workers := include "wallaroo.existing" (dict "root" . "api" "v1" "kind" "ConfigMap" "name" "workers") | fromJson -}}
{{- $claim := include "wallaroo.existing" (dict "root" . "api" "v1" "kind" "PersistentVolumeClaim" "name" "state") | fromJson -}}
{{- $kept := ternary "" (dig "metadata" "annotations" "wallaroo/partitions" "" $claim) (not (empty .Values.storage.state.existingClaim)) -}}
{{- dig "data" "partitions" "" $workers | default $kept -}}
{{- end -}}
{{- end }}
