{{/*
Keys that the schema does not know. The schema leaves them to these templates, because it could not say
which key was meant.
*/}}

{{- define "wallaroo.checks.keys" -}}
{{- $schema := .Subcharts.wallaroo.Files.Get "files/values.schema.json" | fromJson -}}
{{- include "wallaroo.unknownKeys" (dict "path" "" "value" .Values "schema" $schema "definitions" $schema.definitions) -}}
{{- end }}

{{/* One line for each unknown key in a value: dict path, value, schema, definitions. */}}
{{- define "wallaroo.unknownKeys" -}}
{{- $schema := .schema -}}
{{- with get $schema "$ref" -}}
{{- $schema = get $.definitions (base .) -}}
{{- end -}}
{{- range $schema.allOf -}}
{{- include "wallaroo.unknownKeys" (dict "path" $.path "value" $.value "schema" . "definitions" $.definitions) -}}
{{- end -}}
{{- if and (kindIs "slice" .value) $schema.items -}}
{{- range $place, $item := .value -}}
{{- include "wallaroo.unknownKeys" (dict "path" (printf "%s[%d]" $.path $place) "value" $item "schema" $schema.items "definitions" $.definitions) -}}
{{- end -}}
{{- else if and (kindIs "map" .value) $schema.properties (not $schema.additionalProperties) -}}
{{- $prefix := ternary "" (printf "%s." .path) (empty .path) -}}
{{- range $key, $value := .value -}}
{{- if hasKey $schema.properties $key -}}
{{- include "wallaroo.unknownKeys" (dict "path" (print $prefix $key) "value" $value "schema" (get $schema.properties $key) "definitions" $.definitions) -}}
{{- else -}}
{{- $known := without (keys $schema.properties | sortAlpha) "global" "wallaroo" }}
{{ $prefix }}{{ $key }} is not a value of this chart
{{- with include "wallaroo.likely" (dict "key" $key "known" $known) }}: did you mean {{ $prefix }}{{ . }}?
{{- else }}: expected one of {{ join ", " $known }}{{ with $.path }} in {{ . }}{{ end }}.
{{- end }}
{{ end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
The known key that is most like another, if any is like it: the one with the fewest letters to insert,
remove or replace, regardless of case. dict key, known.
*/}}
{{- define "wallaroo.likely" -}}
{{- $letters := splitList "" (lower .key) -}}
{{- $best := add1 (div (len $letters) 3) -}}
{{- $likely := "" -}}
{{- range .known -}}
{{- $others := splitList "" (lower .) -}}
{{- /* a row of Levenshtein's matrix: the distances between the letters so far and each beginning of the others */ -}}
{{- $row := list 0 -}}
{{- range $place, $_ := $others -}}
{{- $row = append $row (add1 $place) -}}
{{- end -}}
{{- range $number, $letter := $letters -}}
{{- $next := list (add1 $number) -}}
{{- range $place, $other := $others -}}
{{- $replaced := add (index $row $place) (ternary 0 1 (eq $letter $other)) -}}
{{- $next = append $next (min $replaced (add1 (last $next)) (add1 (index $row (add1 $place)))) -}}
{{- end -}}
{{- $row = $next -}}
{{- end -}}
{{- if le (last $row) $best -}}
{{- $best = sub (last $row) 1 -}}
{{- $likely = . -}}
{{- end -}}
{{- end -}}
{{- $likely -}}
{{- end }}
