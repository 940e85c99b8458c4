{{/*
Formats of single values, described in words. The schema checks types and choices; for a mistyped value
it would only show a regular expression.
*/}}

{{/* Formats by name: the pattern that a value must match, and what is expected, with an example. */}}
{{- define "wallaroo.forms" -}}
number:
  pattern: '^[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$'
  expected: a number, such as 0.5 or 3
quantity:
  pattern: '^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$'
  expected: an amount as Kubernetes writes it, such as 500m, 2 or 1Gi
javaSize:
  pattern: '^[0-9]+[kmgt]$'
  expected: an amount of memory as Java writes it, such as 768m or 2g
secretName:
  pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'
  expected: the name of a Secret, such as market-spread-tls
objectName:
  pattern: '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'
  expected: the name of an object of Kubernetes, with lower case letters, digits, "-" and ".", such as fast-ssd
host:
  pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'
  expected: a domain name in lower case, such as orders.example
path:
  pattern: '^/[^\s]*$'
  expected: the beginning of a path, such as /orders
url:
  pattern: '^https?://[^\s#]+$'
  expected: the address of a page, such as https://docs.example/operations.html
stateUri:
  pattern: '^s3a://[a-z0-9][a-z0-9.-]+(/[A-Za-z0-9_~+=@,-][A-Za-z0-9._~+=@,-]*)+/?$'
  expected: a folder of a bucket, such as s3a://states/market-spread
archive:
  pattern: '^(/[^\s]*|s3a://[a-z0-9][a-z0-9.-]+(/[A-Za-z0-9_~+=@,-][A-Za-z0-9._~+=@,-]*)+/?)$'
  expected: a directory, such as /archive/orders, or a folder of a bucket, such as s3a://archive/orders
storeUrl:
  pattern: '^https?://[^/@?#\s]+/?$'
  expected: the URL of an object store, such as https://s3.example:9000
region:
  pattern: '^[a-z0-9-]+$'
  expected: the name of a region, such as eu-central-1
secretKey:
  pattern: '^[-._a-zA-Z0-9]+$'
  expected: a key of a Secret, such as token
repository:
  pattern: '^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$'
  expected: the name of an image in lower case without its tag, such as registry.example/team/votes
tag:
  pattern: '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$'
  expected: the tag of an image, such as 1.2.0
digest:
  pattern: '^sha256:[0-9a-f]{64}$'
  expected: sha256 and a colon before 64 hexadecimal digits
source:
  pattern: '^[a-z]([-a-z0-9]{0,13}[a-z0-9])?$'
  expected: 15 characters at most, lower case letters, digits and "-", with a letter first, such as market-data
address:
  pattern: '^([a-zA-Z0-9]([-a-zA-Z0-9._]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$'
  expected: a host and a port from 1 to 65535, such as results.example:7002
broker:
  pattern: '^([a-zA-Z0-9]([-a-zA-Z0-9._]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$'
  expected: a host and a port from 1 to 65535, such as broker-1.example:9092
topic:
  pattern: '^[a-zA-Z0-9._-]{1,249}$'
  expected: the name of a topic, with letters, digits, ".", "_" and "-", such as orders
option:
  pattern: '^[a-zA-Z][a-zA-Z0-9_-]*$'
  expected: what the names of the application's options begin with, such as kafka_source
kafkaKey:
  pattern: '^[a-z][a-z0-9._]*$'
  expected: the name of an option of librdkafka, such as compression.type
line:
  pattern: '^[^\n\r]*$'
  expected: text without line breaks
network:
  pattern: '^[0-9a-fA-F.:]+/[0-9]{1,3}$'
  expected: a range of addresses, such as 10.0.0.0/8
logLevel:
  pattern: '^((driver|gateway|worker|spark|application)=)?(debug|info|warning|error)(,((driver|gateway|worker|spark|application)=)?(debug|info|warning|error))*$'
  expected: debug, info, warning or error, or levels by part (driver, gateway, worker, spark, application), such as info,spark=debug
sparkKey:
  pattern: '^spark\.'
  expected: the name of a setting of Spark, such as spark.sql.shuffle.partitions
interval:
  pattern: '^([0-9]+(ms|[smhd]))+$'
  expected: a time as Prometheus writes it, such as 30s
hex:
  pattern: '^([0-9a-fA-F ]|\{nonce\})*$'
  expected: hexadecimal digits, spaces and {nonce}
resource:
  pattern: '^(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMG]i|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9_.]+)$'
  expected: cpu, memory, ephemeral-storage, or the name of an extended resource, such as example.com/gpu
{{- end }}

{{/* One line for each value that does not match its format. Optional values may be empty. */}}
{{- define "wallaroo.checks.forms" -}}
{{- $values := .Values -}}
{{- $checks := list
  (list "image.repository" "repository" $values.image.repository)
  (list "image.tag" "tag" $values.image.tag)
  (list "image.digest" "digest" $values.image.digest)
  (list "logLevel" "logLevel" $values.logLevel)
  (list "token.key" "secretKey" $values.token.key)
  (list "token.existingSecret" "secretName" $values.token.existingSecret)
  (list "sparkSecret.key" "secretKey" $values.sparkSecret.key)
  (list "sparkSecret.existingSecret" "secretName" $values.sparkSecret.existingSecret)
  (list "tls.sources.secretName" "secretName" $values.tls.sources.secretName)
  (list "tls.sources.clientAuthorities" "secretName" $values.tls.sources.clientAuthorities)
  (list "tls.outputs.authorities" "secretName" $values.tls.outputs.authorities)
  (list "tls.outputs.secretName" "secretName" $values.tls.outputs.secretName)
  (list "tls.kafka.authorities" "secretName" $values.tls.kafka.authorities)
  (list "tls.kafka.secretName" "secretName" $values.tls.kafka.secretName)
  (list "kafka.secretName" "secretName" $values.kafka.secretName)
  (list "kafka.secretKey" "secretKey" $values.kafka.secretKey)
  (list "tls.door.secretName" "secretName" $values.tls.door.secretName)
  (list "dashboard.tokenSecret" "secretName" $values.dashboard.tokenSecret)
  (list "test.tlsSecretName" "secretName" $values.test.tlsSecretName)
  (list "serviceMonitor.interval" "interval" $values.serviceMonitor.interval)
  (list "storage.journal.size" "quantity" $values.storage.journal.size)
  (list "storage.state.size" "quantity" $values.storage.state.size)
  (list "storage.journal.storageClass" "objectName" $values.storage.journal.storageClass)
  (list "storage.state.storageClass" "objectName" $values.storage.state.storageClass)
  (list "storage.journal.existingClaim" "objectName" $values.storage.journal.existingClaim)
  (list "storage.state.existingClaim" "objectName" $values.storage.state.existingClaim)
  (list "gateway.archiveDirectory" "archive" $values.gateway.archiveDirectory)
  (list "storage.state.uri" "stateUri" $values.storage.state.uri)
  (list "snapshots.uri" "stateUri" $values.snapshots.uri)
  (list "storage.state.endpoint" "storeUrl" $values.storage.state.endpoint)
  (list "storage.state.region" "region" $values.storage.state.region)
  (list "storage.state.credentialsSecret" "secretName" $values.storage.state.credentialsSecret)
  (list "ingress.className" "objectName" $values.ingress.className)
  (list "ingress.tlsSecretName" "secretName" $values.ingress.tlsSecretName)
  (list "prometheusRule.runbooks" "url" $values.prometheusRule.runbooks)
  (list "driver.memory" "javaSize" $values.driver.memory)
  (list "executor.memory" "javaSize" $values.executor.memory)
  (list "executor.memoryOverhead" "javaSize" $values.executor.memoryOverhead)
  (list "executor.cpuRequest" "quantity" $values.executor.cpuRequest)
  (list "executor.cpuLimit" "quantity" $values.executor.cpuLimit)
  (list "executor.ephemeralStorage" "quantity" $values.executor.ephemeralStorage)
-}}
{{- range $place, $route := $values.routes -}}
{{- $checks = append $checks (list (printf "routes[%d].host" $place) "host" $route.host "required") -}}
{{- $checks = append $checks (list (printf "routes[%d].path" $place) "path" $route.path) -}}
{{- end -}}
{{- range $place, $output := $values.outputs -}}
{{- $checks = append $checks (list (printf "outputs[%d]" $place) "address" $output "required") -}}
{{- end -}}
{{- range $place, $source := $values.sources -}}
{{- $checks = append $checks (list (printf "sources[%d].name" $place) "source" $source.name "required") -}}
{{- end -}}
{{- range $place, $port := $values.events -}}
{{- $checks = append $checks (list (printf "events[%d].name" $place) "source" $port.name "required") -}}
{{- end -}}
{{- range $place, $range := $values.gateway.service.loadBalancerSourceRanges -}}
{{- $checks = append $checks (list (printf "gateway.service.loadBalancerSourceRanges[%d]" $place) "network" $range "required") -}}
{{- end -}}
{{- range $place, $broker := $values.kafka.brokers -}}
{{- $checks = append $checks (list (printf "kafka.brokers[%d]" $place) "broker" $broker "required") -}}
{{- end -}}
{{- range $side := list "sources" "sinks" -}}
{{- range $place, $topic := index $values.kafka $side -}}
{{- $path := printf "kafka.%s[%d]" $side $place -}}
{{- $checks = append $checks (list (printf "%s.topic" $path) "topic" $topic.topic "required") -}}
{{- $checks = append $checks (list (printf "%s.name" $path) "option" $topic.name) -}}
{{- range $number, $broker := $topic.brokers -}}
{{- $checks = append $checks (list (printf "%s.brokers[%d]" $path $number) "broker" $broker "required") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := $values.kafka.settings -}}
{{- $checks = append $checks (list "kafka.settings" "kafkaKey" $name "required") -}}
{{- $checks = append $checks (list (printf "kafka.settings[%s]" $name) "line" $value) -}}
{{- end -}}
{{- range $name, $_ := $values.sparkConf -}}
{{- $checks = append $checks (list "sparkConf" "sparkKey" $name "required") -}}
{{- end -}}
{{- range $part := list "messages" "expect" -}}
{{- range $place, $payload := index $values.test $part -}}
{{- $checks = append $checks (list (printf "test.%s[%d].hex" $part $place) "hex" $payload.hex) -}}
{{- end -}}
{{- end -}}
{{- range $component := list "gateway" "driver" "receiver" -}}
{{- range $kind := list "requests" "limits" -}}
{{- range $name, $amount := index $values $component "resources" $kind -}}
{{- $path := printf "%s.resources.%s" $component $kind -}}
{{- $checks = append $checks (list $path "resource" $name "required") -}}
{{- $checks = append $checks (list (printf "%s.%s" $path $name) "quantity" $amount "required") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $component := list "gateway" "driver" "executor" -}}
{{- $own := index $values $component -}}
{{- $checks = append $checks (list (printf "%s.priorityClassName" $component) "objectName" $own.priorityClassName) -}}
{{- $checks = append $checks (list (printf "%s.serviceAccount.name" $component) "objectName" $own.serviceAccount.name) -}}
{{- with $own.tmpVolume.sizeLimit -}}
{{- $checks = append $checks (list (printf "%s.tmpVolume.sizeLimit" $component) "quantity" .) -}}
{{- end -}}
{{- end -}}
{{- $forms := include "wallaroo.forms" . | fromYaml -}}
{{- range $checks -}}
{{- $text := toString (index . 2 | default "") -}}
{{- $form := get $forms (index . 1) -}}
{{- if and (or $text (gt (len .) 3)) (not (regexMatch $form.pattern $text)) }}
{{ index . 0 }} is {{ $text | quote }}: expected {{ $form.expected }}.
{{- end -}}
{{- end -}}
{{- end }}

{{/* Numbers, because helm's --set parses fractions as strings: path, value, bound, optionally the reason for it. */}}
{{- define "wallaroo.checks.numbers" -}}
{{- $values := .Values -}}
{{- $form := get (include "wallaroo.forms" . | fromYaml) "number" -}}
{{- range list
  (list "functionTimeoutSeconds" $values.functionTimeoutSeconds "0 or more")
  (list "gateway.journalLimitGiB" $values.gateway.journalLimitGiB "more than 0")
  (list "gateway.keepMessagesGiB" $values.gateway.keepMessagesGiB "0 or more")
  (list "gateway.keepMessagesDays" $values.gateway.keepMessagesDays "0 or more")
  (list "gateway.idleTimeoutSeconds" $values.gateway.idleTimeoutSeconds "0 or more")
  (list "gateway.frameTimeoutSeconds" $values.gateway.frameTimeoutSeconds "0 or more")
  (list "gateway.deadLetters.limitMiB" $values.gateway.deadLetters.limitMiB "more than 0")
  (list "gateway.deadLetters.days" $values.gateway.deadLetters.days "more than 0")
  (list "gateway.terminationGracePeriodSeconds" $values.gateway.terminationGracePeriodSeconds "30 or more" "the gateway first writes to disk what has arrived")
  (list "driver.gatewayPatienceSeconds" $values.driver.gatewayPatienceSeconds "60 or more" "a gateway takes up to a minute to restart")
  (list "driver.terminationGracePeriodSeconds" $values.driver.terminationGracePeriodSeconds "30 or more" "the driver first ends its epoch, which takes up to 20 s")
  (list "executor.terminationGracePeriodSeconds" $values.executor.terminationGracePeriodSeconds "30 or more" "an executor first ends its tasks")
-}}
{{- $text := toString (index . 1) -}}
{{- $bad := not (regexMatch $form.pattern $text) -}}
{{- if not $bad -}}
{{- $least := regexFind "^[0-9]+" (index . 2) -}}
{{- $bad = ternary (lt (float64 $text) (float64 $least)) (le (float64 $text) 0.0) (not (empty $least)) -}}
{{- end -}}
{{- if $bad }}
{{ index . 0 }} is {{ $text | quote }}: expected a number, {{ slice . 2 | join ", because " }}.
{{- end -}}
{{- end -}}
{{- end }}
