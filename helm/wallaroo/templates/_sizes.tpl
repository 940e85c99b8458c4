{{/* Checks of sizes and places that depend on each other. */}}

{{/* Bytes of an amount as Kubernetes writes it; empty if it is none. An amount as Java writes it, such as 768m, is 768Mi here. */}}
{{- define "wallaroo.bytes" -}}
{{- $units := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- $number := regexFind "^[0-9]+(\\.[0-9]+)?" (toString .) -}}
{{- $unit := trimPrefix $number (toString .) -}}
{{- if and $number (hasKey $units $unit) -}}
{{- mulf (float64 $number) (get $units $unit) -}}
{{- end -}}
{{- end }}

{{/* Bytes of an amount as Java writes it; empty if it is none. */}}
{{- define "wallaroo.javaBytes" -}}
{{- with regexFind "^[0-9]+[kmgt]$" (toString .) -}}
{{- include "wallaroo.bytes" (printf "%si" (upper .)) -}}
{{- end -}}
{{- end }}

{{- define "wallaroo.checks.sizes" -}}
{{- $mib := 1048576.0 -}}
{{- $beside := mulf 300.0 $mib -}}
{{- range $component := list "driver" "executor" -}}
{{- $memory := (index $.Values $component).memory -}}
{{- with include "wallaroo.javaBytes" $memory -}}
{{- if lt (float64 .) (mulf 512.0 $mib) }}
{{ $component }}.memory is {{ $memory }}: Spark does not start with so small a heap. Set 512m or more.
{{- end -}}
{{- end -}}
{{- end -}}
{{- $heap := include "wallaroo.javaBytes" .Values.driver.memory -}}
{{- $limit := dig "limits" "memory" "" .Values.driver.resources -}}
{{- $bytes := include "wallaroo.bytes" $limit -}}
{{- if and $heap $bytes -}}
{{- $needed := addf (float64 $heap) $beside -}}
{{- if gt $needed (float64 $bytes) }}
driver.memory is {{ .Values.driver.memory }} and driver.resources.limits.memory is {{ $limit }}: with the 300 MiB that Python needs beside the heap, the driver would be killed for its memory. Set the limit to {{ divf $needed $mib | ceil | int }}Mi or more, or a smaller heap.
{{- end -}}
{{- end -}}
{{- with include "wallaroo.javaBytes" .Values.executor.memoryOverhead -}}
{{- if lt (float64 .) $beside }}
executor.memoryOverhead is {{ $.Values.executor.memoryOverhead }}: Python needs 300 MiB beside the heap, and the entities need more; the executor would be killed for its memory. Set 300m or more, or leave it empty.
{{- end -}}
{{- end -}}
{{- $gib := 1073741824.0 -}}
{{- $journal := .Values.storage.journal -}}
{{- $size := include "wallaroo.bytes" $journal.size -}}
{{- $most := regexFind (get (include "wallaroo.forms" . | fromYaml) "number").pattern (toString .Values.gateway.journalLimitGiB) -}}
{{- $kept := regexFind (get (include "wallaroo.forms" . | fromYaml) "number").pattern (toString .Values.gateway.keepMessagesGiB) -}}
{{- $days := regexFind (get (include "wallaroo.forms" . | fromYaml) "number").pattern (toString .Values.gateway.keepMessagesDays) -}}
{{- if and $kept $days (not (float64 $kept)) (float64 $days) }}
gateway.keepMessagesDays is {{ $days }} and gateway.keepMessagesGiB is 0: nothing is kept for so long. Set gateway.keepMessagesGiB to the most that all of it may take on the volume.
{{- end -}}
{{- with ternary "" .Values.gateway.archiveDirectory (eq (include "wallaroo.archiveIsStored" .) "true") -}}
{{- $archive := . -}}
{{- $mounted := false -}}
{{- range $.Values.gateway.extraVolumeMounts -}}
{{- $mounted = or $mounted (hasPrefix (printf "%s/" (trimSuffix "/" (toString .mountPath))) (printf "%s/" (trimSuffix "/" $archive))) -}}
{{- end -}}
{{- if not $mounted }}
gateway.archiveDirectory is {{ . }}, and no volume of gateway.extraVolumeMounts has it. Mount one there, such as a claim of gateway.extraVolumes.
{{- end -}}
{{- end -}}
{{- if and $most $kept $size (not $journal.existingClaim) -}}
{{- $waiting := ternary 1.0 0.0 (not (empty .Values.gateway.archiveDirectory)) -}}
{{- $needed := addf (float64 $most) (float64 $kept) $waiting 1.0 -}}
{{- if gt (mulf $needed $gib) (float64 $size) }}
gateway.journalLimitGiB is {{ $most }}{{ if float64 $kept }}, gateway.keepMessagesGiB is {{ $kept }}{{ end }} and storage.journal.size is {{ $journal.size }}: the volume would be full before the journal is, because it also holds 1 GiB of outputs{{ if $waiting }} and 1 GiB that waits for the archive{{ end }}. Set storage.journal.size={{ $needed }}Gi or more, or a smaller limit.
{{- end -}}
{{- end -}}
{{- end }}

{{/* Pods that could not run where their volume is. */}}
{{- define "wallaroo.checks.placement" -}}
{{- $surging := dict -}}
{{- if .Values.gateway.surge -}}
{{- $_ := set $surging "gateway" "journal" -}}
{{- end -}}
{{- if and (include "wallaroo.isOnOneNode" .) (include "wallaroo.takesOver" .) -}}
{{- $_ := set $surging "driver" "state volume" -}}
{{- end -}}
{{- range $component, $volume := $surging -}}
{{- $values := index $.Values $component -}}
{{- $old := include "wallaroo.existing" (dict "root" $ "api" "apps/v1" "kind" "Deployment" "name" $component) | fromJson -}}
{{- $spec := dig "spec" "template" "spec" dict $old -}}
{{- $why := printf "a new %s starts on the node of the old one, the only one with the %s" $component $volume -}}
{{- if and $spec (or (ne (toJson ($spec.nodeSelector | default dict)) (toJson $values.nodeSelector)) (ne (toJson (dig "affinity" "nodeAffinity" dict $spec)) (toJson ($values.affinity.nodeAffinity | default dict)))) }}
{{ $component }}.nodeSelector or {{ $component }}.affinity.nodeAffinity changes, and {{ $why }}. Set {{ $component }}.surge=false in this upgrade to move it.
{{- end -}}
{{- range $values.topologySpreadConstraints -}}
{{- if ne .whenUnsatisfiable "ScheduleAnyway" }}
{{ $component }}.topologySpreadConstraints keeps {{ $component }}s apart, and {{ $why }}. Set {{ $component }}.surge=false, or whenUnsatisfiable: ScheduleAnyway.
{{- end -}}
{{- end -}}
{{- if dig "podAntiAffinity" "requiredDuringSchedulingIgnoredDuringExecution" list $values.affinity }}
{{ $component }}.affinity.podAntiAffinity may keep {{ $component }}s apart, and {{ $why }}. Set {{ $component }}.surge=false, or prefer other nodes instead of requiring them.
{{- end -}}
{{- end -}}
{{- if include "wallaroo.isOnOneNode" . -}}
{{- $why := "and storage.state.accessModes has no ReadWriteMany: all executors run on the driver's node, the only one with the volume" -}}
{{- if .Values.executor.topologySpreadConstraints }}
executor.topologySpreadConstraints is set, {{ $why }}. Remove the constraints, or use a storage class that supports ReadWriteMany, or storage.state.uri.
{{- end -}}
{{- range $label, $value := .Values.executor.nodeSelector -}}
{{- if ne (toString (get ($.Values.driver.nodeSelector | default dict) $label)) $value }}
executor.nodeSelector has {{ $label }}={{ $value }}, which driver.nodeSelector does not have, {{ $why }}. Select the same nodes for the driver, or use a storage class that supports ReadWriteMany, or storage.state.uri.
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
